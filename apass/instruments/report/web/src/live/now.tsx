// What runs and what waits at the moment, in words.

import { time } from "../shared/format";
import { Progress } from "./progress";

interface Props {
  progress: Progress;
  end: number; // microseconds: now
  hasFunctions: boolean;
}

const MOST = 100;

export function Now({ progress, end, hasFunctions }: Props) {
  const active = progress.active();
  const waiting = active.filter((one) => one.waits.length);
  return (
    <section class="now" aria-label="Now">
      <h3>
        Now <span class="quiet">{`${active.length - waiting.length} run, ${waiting.length} wait`}</span>
      </h3>
      <table>
        <thead>
          <tr>
            <th>pass</th>
            {hasFunctions && <th>function</th>}
            <th>waits for</th>
            <th class="n">since</th>
          </tr>
        </thead>
        <tbody>
          {active.slice(0, MOST).map((one, at) => (
            <tr key={at}>
              <td>
                <i class={`dot ${one.waits.length ? "queued" : "running"}`} /> {one.name}
              </td>
              {hasFunctions && <td>{one.func === null ? "" : `@${one.func}`}</td>}
              <td>{one.waits.map((wait) => wait.what).join(", ")}</td>
              <td class="n">{time(Math.max(0, end - (one.waits[0]?.start ?? one.since)))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {active.length > MOST && <p class="note">and {active.length - MOST} more</p>}
      {!hasFunctions && <p class="note">Submit the job with “Show each function” to see the functions.</p>}
    </section>
  );
}
