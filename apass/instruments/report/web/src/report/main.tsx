// Where the page begins.

import { render } from "preact";
import { App } from "./app";
import { load } from "./data";

function textOf(id: string): string {
  return document.getElementById(id)?.textContent ?? "";
}

const began = performance.now();
const root = document.getElementById("app")!;
const data = load(textOf("apass-index"), textOf("apass-texts"));
root.replaceChildren();
render(<App data={data} />, root);
root.dataset.ready = String(Math.round(performance.now() - began));
