// A pipeline as a list of passes with their options, beside its text.

import { InputHTMLAttributes } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import { visible } from "../shared/model";
import { Control, controlOf, formatSteps, Option, parseSteps, quoted, Step, unquoted } from "./pipeline";

export interface PassInfo {
  name: string;
  level: number | null;
  options: Option[];
  doc: string;
  error: string | null;
  allowed: boolean;
}

interface Props {
  text: string;
  passes: PassInfo[];
  change: (text: string) => void;
}

export function Builder({ text, passes, change }: Props) {
  const steps = useMemo(() => parseSteps(text), [text]);
  const known = useMemo(() => new Map(passes.map((pass) => [pass.name, pass])), [passes]);
  const [name, setName] = useState("");
  const list = useId();
  const set = (next: Step[]) => change(formatSteps(next));
  const add = () => {
    const pass = known.get(name.trim());
    if (!pass || !steps) return;
    const takesPasses = pass.options.some((option) => option.name === "passes");
    set([...steps, { name: pass.name, options: [], passes: takesPasses ? "" : null }]);
    setName("");
  };
  const typed = (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // it would send the form
    add();
  };
  return (
    <div class="builder">
      <label class="field">
        <span>Text</span>
        <textarea rows={3} spellcheck={false} value={text} onInput={(event) => change(event.currentTarget.value)} />
      </label>
      {steps === null ? (
        <p class="hint">The passes are listed here when the text is complete.</p>
      ) : (
        <>
          <ol class="steps" aria-label="Passes">
            {steps.map((step, at) => (
              <StepFields
                key={at}
                step={step}
                pass={known.get(step.name)}
                change={(next) => set(steps.with(at, next))}
                remove={() => set(steps.toSpliced(at, 1))}
                up={at > 0 ? () => set(swapped(steps, at - 1)) : null}
                down={at < steps.length - 1 ? () => set(swapped(steps, at)) : null}
              />
            ))}
          </ol>
          <div class="adder">
            <label class="field">
              <span>Pass</span>
              <input
                list={list}
                value={name}
                placeholder={passes[0] ? `such as ${passes[0].name}` : ""}
                onInput={(event) => setName(event.currentTarget.value)}
                onKeyDown={typed}
              />
            </label>
            <datalist id={list}>
              {passes.map((pass) => (
                <option key={pass.name} value={pass.name}>
                  {visible(pass.doc.split("\n", 1)[0])}
                </option>
              ))}
            </datalist>
            <button type="button" class="secondary" disabled={!known.has(name.trim())} onClick={add}>
              Add
            </button>
          </div>
        </>
      )}
    </div>
  );
}

function swapped(steps: Step[], at: number): Step[] {
  return steps.with(at, steps[at + 1]).with(at + 1, steps[at]);
}

interface StepProps {
  step: Step;
  pass: PassInfo | undefined;
  change: (step: Step) => void;
  remove: () => void;
  up: (() => void) | null;
  down: (() => void) | null;
}

function StepFields({ step, pass, change, remove, up, down }: StepProps) {
  const options = pass?.options.filter((option) => option.name !== "passes") ?? [];
  const setOption = (name: string, value: string | null) => {
    const others = step.options.filter(([key]) => key !== name);
    change({ ...step, options: value === null ? others : [...others, [name, value]] });
  };
  return (
    <li>
      <div class="step-head">
        <b>{visible(step.name)}</b>
        <span class="space" />
        <button type="button" class="round small" disabled={!up} onClick={up ?? undefined} aria-label={`Move ${step.name} up`} title="Move up">
          ↑
        </button>
        <button type="button" class="round small" disabled={!down} onClick={down ?? undefined} aria-label={`Move ${step.name} down`} title="Move down">
          ↓
        </button>
        <button type="button" class="round small" onClick={remove} aria-label={`Remove ${step.name}`} title="Remove">
          ✕
        </button>
      </div>
      {pass?.doc && <p class="hint">{visible(pass.doc.split("\n", 1)[0])}</p>}
      {step.passes !== null && (
        <label class="field">
          <span>Passes in it</span>
          <Draft value={step.passes} commit={(passes) => change({ ...step, passes })} />
        </label>
      )}
      {options.length > 0 && (
        <details open={step.options.length > 0}>
          <summary>
            {options.length} option{options.length === 1 ? "" : "s"}
          </summary>
          <div class="options">
            {options.map((option) => (
              <OptionField
                key={option.name}
                option={option}
                value={step.options.find(([key]) => key === option.name)?.[1] ?? null}
                set={(value) => setOption(option.name, value)}
              />
            ))}
          </div>
        </details>
      )}
    </li>
  );
}

interface OptionProps {
  option: Option;
  value: string | null; // as in the text; null if it is not given
  set: (value: string | null) => void;
}

function OptionField({ option, value, set }: OptionProps) {
  const control: Control = controlOf(option.type);
  // What equals the default need not be in the text.
  const give = (next: string) => set(next === "" || next === option.default ? null : next);
  const shown = value ?? (option.default === "none" ? "" : (option.default ?? ""));
  const title = `${option.name}: ${option.type ?? "any"}`;
  if (control.kind === "flag")
    return (
      <label class="check" title={title}>
        <input type="checkbox" checked={shown === "true"} onChange={(event) => give(String(event.currentTarget.checked))} />
        {option.name}
      </label>
    );
  return (
    <label class="field" title={title}>
      <span>
        {option.name}
        {option.required && " (required)"}
      </span>
      {control.kind === "choice" ? (
        <select value={shown} onChange={(event) => give(event.currentTarget.value)}>
          {(option.default === null || option.default === "none") && <option value="">{option.default ?? "choose"}</option>}
          {control.values.map((one) => (
            <option key={one} value={one}>
              {unquoted(one)}
            </option>
          ))}
        </select>
      ) : control.kind === "number" ? (
        <Draft type="number" step={control.step} placeholder={option.default ?? ""} value={value ?? ""} commit={give} />
      ) : control.kind === "string" ? (
        <Draft
          placeholder={unquoted(option.default ?? "")}
          value={value === null ? "" : unquoted(value)}
          commit={(text) => give(text && quoted(text))}
        />
      ) : (
        <Draft placeholder={option.default ?? ""} value={value ?? ""} commit={give} />
      )}
    </label>
  );
}

interface DraftProps {
  value: string;
  commit: (value: string) => void;
  type?: "number" | "text";
  step?: string;
  placeholder?: string;
}

/** A field whose text counts when it is complete: a part of a value may make no sense in the text of a pipeline. */
function Draft({ value, commit, type = "text", step, placeholder }: DraftProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const kind = { type, step, placeholder } as InputHTMLAttributes<HTMLInputElement>;
  return (
    <input
      spellcheck={false}
      {...kind}
      value={draft ?? value}
      onInput={(event) => setDraft(event.currentTarget.value)}
      onChange={(event) => {
        setDraft(null);
        commit(event.currentTarget.value);
      }}
    />
  );
}
