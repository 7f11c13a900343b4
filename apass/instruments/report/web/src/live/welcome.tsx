// What is shown while no job is open: how to submit one.

import { jobs, useCell } from "./store";
import { BASE } from "./api";

export function Welcome({ submit }: { submit: (files: File[]) => void }) {
  const status = useCell(jobs.status);
  const server = BASE.href.replace(/\/$/, "");
  const pick = (event: Event) => {
    const input = event.currentTarget as HTMLInputElement;
    const files = [...(input.files ?? [])];
    input.value = "";
    if (files.length) submit(files);
  };
  return (
    <section class="welcome" aria-labelledby="welcome">
      <h2 id="welcome">Submit a model</h2>
      <label class="dropzone">
        <input type="file" multiple onChange={pick} />
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <path d="M16 21V7M10 12.5 16 6.5l6 6M6 20v4.5A1.5 1.5 0 0 0 7.5 26h17a1.5 1.5 0 0 0 1.5-1.5V20" />
        </svg>
        <b>Drop files here, or choose them</b>
        {status && <span class="hint">{status.suffixes.join("  ")}</span>}
      </label>
      <p class="hint">From a shell:</p>
      <pre>
        <code>{`apass submit model.onnx --server ${server}`}</code>
      </pre>
      <p class="hint">With curl:</p>
      <pre>
        <code>{`curl --data-binary @model.onnx '${server}/v1/jobs?name=model.onnx'`}</code>
      </pre>
    </section>
  );
}
