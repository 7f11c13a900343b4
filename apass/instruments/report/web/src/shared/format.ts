// How times and numbers are written.

export function time(micro: number): string {
  if (micro < 1000) return `${Math.round(micro)} µs`;
  if (micro < 1e6) return `${significant(micro / 1e3)} ms`;
  if (micro < 60e6) return `${significant(micro / 1e6)} s`;
  return `${Math.floor(micro / 60e6)} min ${Math.round((micro % 60e6) / 1e6)} s`;
}

function significant(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function count(value: number, what: string): string {
  return `${value.toLocaleString("en-US")} ${what}${value === 1 ? "" : "s"}`;
}

export function amount(value: number | string): string {
  return typeof value === "number" ? value.toLocaleString("en-US") : value;
}
