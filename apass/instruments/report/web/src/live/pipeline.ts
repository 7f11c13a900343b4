// The text of a pipeline as a list of steps, and back.

export interface Step {
  name: string;
  options: [name: string, value: string][]; // as in the text
  passes: string | null; // what is in parentheses, as in the text; null without parentheses
}

/** An option of a pass, as the server describes it. */
export interface Option {
  name: string;
  type: string | null;
  required: boolean;
  default: string | null;
}

const TOKEN = /\s+|#[^\n]*|([\p{L}\p{N}_.:/+-]+)|("(?:[^"\\\n]|\\.)*")|([,=(){}[\]])/uy;
const PAIRS: Record<string, string> = { "(": ")", "{": "}", "[": "]" };

interface Token {
  text: string;
  from: number;
  to: number;
}

function tokens(text: string): Token[] | null {
  const made: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const from = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match) return null;
    const found = match[1] ?? match[2] ?? match[3];
    if (found !== undefined) made.push({ text: found, from, to: TOKEN.lastIndex });
  }
  return made;
}

/** Return the steps of a text; null if it cannot be read, which the server explains. */
export function parseSteps(text: string): Step[] | null {
  const all = tokens(text);
  if (!all) return null;
  let at = 0;
  const isWord = () => at < all.length && !/^["=,(){}[\]]/.test(all[at].text);
  /** Go past a value, up to one of some marks outside of all brackets; return its text. */
  const upTo = (ends: string): string | null => {
    const first = at;
    const open: string[] = [];
    for (; at < all.length; at++) {
      const mark = all[at].text;
      if (!open.length && ends.includes(mark)) break;
      if (mark in PAIRS) open.push(PAIRS[mark]);
      else if (")}]".includes(mark) && open.pop() !== mark) return null;
    }
    if (open.length || at >= all.length) return null;
    return at === first ? "" : text.slice(all[first].from, all[at - 1].to);
  };
  const steps: Step[] = [];
  if (!all.length) return steps;
  while (true) {
    if (!isWord()) return null;
    const step: Step = { name: all[at++].text, options: [], passes: null };
    if (all[at]?.text === "{") {
      at++;
      while (all[at]?.text !== "}") {
        if (!isWord()) return null;
        const name = all[at++].text;
        if (all[at++]?.text !== "=") return null;
        const value = upTo(",}");
        if (!value) return null;
        step.options.push([name, value]);
        if (all[at].text === ",") at++;
      }
      at++;
    }
    if (all[at]?.text === "(") {
      at++;
      step.passes = upTo(")");
      if (step.passes === null) return null;
      at++;
    }
    steps.push(step);
    if (at === all.length) return steps;
    if (all[at++].text !== ",") return null;
  }
}

export function formatSteps(steps: Step[]): string {
  return steps
    .map(({ name, options, passes }) => {
      const inBraces = options.map(([key, value]) => `${key}=${value}`).join(",");
      return `${name}${inBraces && `{${inBraces}}`}${passes === null ? "" : `(${passes})`}`;
    })
    .join(", ");
}

/** Return how a string is written in a pipeline. */
export function quoted(text: string): string {
  const isPlain = /^[A-Za-z_/][\w./-]*$/.test(text) && !["true", "false", "none"].includes(text);
  return isPlain ? text : JSON.stringify(text);
}

export function unquoted(value: string): string {
  if (!value.startsWith('"')) return value;
  try {
    return JSON.parse(value) as string;
  } catch {
    return value;
  }
}

export type Control =
  | { kind: "flag" }
  | { kind: "number"; step: "1" | "any" }
  | { kind: "choice"; values: string[] } // as in the text of a pipeline
  | { kind: "string" }
  | { kind: "value" };

/** Return what an option of a type is set with. */
export function controlOf(type: string | null): Control {
  const parts = (type ?? "any").split(" | ");
  const plain = parts.filter((part) => part !== "None");
  const literals = plain.map((part) => /^'([^']*)'$/.exec(part)?.[1]);
  if (literals.every((literal) => literal !== undefined)) return { kind: "choice", values: literals.map((one) => quoted(one!)) };
  if (plain.length !== 1) return { kind: "value" };
  if (plain[0] === "bool") return parts.length > 1 ? { kind: "choice", values: ["true", "false"] } : { kind: "flag" };
  if (plain[0] === "int") return { kind: "number", step: "1" };
  if (plain[0] === "float") return { kind: "number", step: "any" };
  return plain[0] === "str" ? { kind: "string" } : { kind: "value" };
}
