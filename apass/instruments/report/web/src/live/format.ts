// How times of day, ages and sizes are written.

import { connection } from "./api";

/** Return how long something took, in words for people. */
export function seconds(value: number): string {
  if (value < 0.0995) return `${Math.max(0, Math.round(value * 1000))} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 59.5) return `${Math.round(value)} s`;
  const [minutes, rest] = [Math.floor(Math.round(value) / 60), Math.round(value) % 60];
  if (minutes < 60) return `${minutes} min ${rest} s`;
  const [hours, minute] = [Math.floor(minutes / 60), minutes % 60];
  return hours < 48 ? `${hours} h ${minute} min` : `${Math.round(hours / 24)} days`;
}

export function ago(time: number): string {
  const value = connection.now() - time;
  if (value < 5) return "now";
  if (value < 60) return `${Math.floor(value)} s ago`;
  if (value < 3600) return `${Math.floor(value / 60)} min ago`;
  if (value < 86_400) return `${Math.floor(value / 3600)} h ago`;
  return new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

export function date(time: number): string {
  return new Date(time * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const power = Math.min(4, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${value.toFixed(value < 9.95 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}
