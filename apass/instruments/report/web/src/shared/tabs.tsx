// A row of tabs: one stop of the Tab key, and the arrow keys go from one to the next.

interface Props<T extends string> {
  tabs: [T, string][];
  current: T;
  label: string;
  select: (tab: T) => void;
}

export function Tabs<T extends string>({ tabs, current, label, select }: Props<T>) {
  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -tabs.length, End: tabs.length }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const here = tabs.findIndex(([tab]) => tab === current);
    const next = Math.max(0, Math.min(tabs.length - 1, here + by));
    select(tabs[next][0]);
    ((event.currentTarget as HTMLElement).children[next] as HTMLElement).focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map(([tab, title]) => (
        <button key={tab} role="tab" aria-selected={tab === current} tabIndex={tab === current ? 0 : -1} onClick={() => select(tab)}>
          {title}
        </button>
      ))}
    </div>
  );
}
