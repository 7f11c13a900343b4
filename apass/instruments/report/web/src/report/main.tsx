// Where the page begins: with data in the page itself, or in the frame of a page that sends it.

import { render } from "preact";
import { Theme } from "../shared/theme";
import { App } from "./app";
import { load } from "./data";

function textOf(id: string): string | undefined {
  return document.getElementById(id)?.textContent ?? undefined;
}

function show(index: string, texts: string, theme?: Theme): void {
  const began = performance.now();
  const root = document.getElementById("app")!;
  const data = load(index, texts);
  root.replaceChildren();
  render(<App data={data} given={theme} />, root);
  root.dataset.ready = String(Math.round(performance.now() - began));
}

interface Message {
  index?: string;
  texts?: string;
  theme?: Theme;
}

/** Show the data that the page around this frame sends. The frame is in a sandbox, so it has no rights of that page. */
function wait(): void {
  document.documentElement.dataset.framed = "";
  let data: { index: string; texts: string } | null = null;
  addEventListener("message", (event: MessageEvent<Message>) => {
    if (event.source !== parent) return;
    const { index, texts, theme } = event.data;
    if (index !== undefined && texts !== undefined) data = { index, texts };
    if (!data) return;
    if (index !== undefined) show(data.index, data.texts, theme);
    else if (theme !== undefined) dispatchEvent(new CustomEvent("apass-theme", { detail: theme }));
  });
  parent.postMessage("apass-report-ready", "*");
}

const index = textOf("apass-index");
if (index === undefined) wait();
else show(index, textOf("apass-texts") ?? "");
