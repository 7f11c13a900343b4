// Which passes of a pipeline run, as the server plans it.

import { visible } from "../shared/model";

export interface PlannedPass {
  name: string;
  text: string;
  level: number;
  decision: "run" | "maybe" | "skip";
  reason: string;
  passes: PlannedPass[];
}

export interface Plan {
  pipeline: string | null;
  plan: PlannedPass;
}

/** Return how many passes without others in them may run. */
export function leavesOf(pass: PlannedPass): number {
  if (pass.decision === "skip") return 0;
  return pass.passes.length ? pass.passes.reduce((sum, inner) => sum + leavesOf(inner), 0) : 1;
}

export function PlanTree({ passes }: { passes: PlannedPass[] }) {
  return (
    <ul class="plan">
      {passes.map((pass, at) => (
        <li key={at}>
          <span class={`decision ${pass.decision}`}>{pass.decision}</span>
          <code>{visible(pass.text || pass.name)}</code>
          {pass.reason && <span class="quiet">{visible(pass.reason)}</span>}
          {pass.passes.length > 0 && <PlanTree passes={pass.passes} />}
        </li>
      ))}
    </ul>
  );
}
