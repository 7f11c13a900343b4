// A dialog in front of the page: the browser keeps the focus in it, and closes it on Escape.

import { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface Props {
  title: string;
  class?: string;
  close: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, close, children, ...rest }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const before = document.activeElement;
    ref.current!.showModal();
    ref.current!.querySelector<HTMLElement>("[data-first]")?.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  // The dialog goes away with the component, so that its end is the same however it is closed.
  const cancel = (event: Event) => {
    event.preventDefault();
    close();
  };
  return (
    <dialog ref={ref} class={rest.class} aria-labelledby={heading} onCancel={cancel}>
      <header class="dialog-head">
        <h2 id={heading}>{title}</h2>
        <button type="button" class="round" onClick={close} aria-label="Close" title="Close (Esc)">
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}
