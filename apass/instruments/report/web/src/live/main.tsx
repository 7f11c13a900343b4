// Where the page begins.

import { render } from "preact";
import { App } from "./app";

const root = document.getElementById("app")!;
root.replaceChildren();
render(<App />, root);
root.dataset.ready = "true";
