// The report of a job, in a frame without the rights of this page: its data may come from a hostile model.

import { useEffect, useRef, useState } from "preact/hooks";
import { visible } from "../shared/model";
import { BASE, call, Job, messageOf } from "./api";
import { download } from "./store";

interface Props {
  job: Job;
  theme: string;
}

export function ReportFrame({ job, theme }: Props) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [error, setError] = useState("");
  const current = useRef(theme);
  current.current = theme;
  useEffect(() => {
    const controller = new AbortController();
    // The frame has no token, so the data is read here.
    const report = read(job.id, controller.signal);
    report.catch((raised: unknown) => !controller.signal.aborted && setError(messageOf(raised)));
    const answer = async (event: MessageEvent) => {
      if (event.source !== frame.current?.contentWindow || event.data !== "apass-report-ready") return;
      try {
        // The origin of a frame in a sandbox has no name.
        frame.current!.contentWindow!.postMessage({ ...(await report), theme: current.current }, "*");
      } catch {
        // The error is shown already.
      }
    };
    addEventListener("message", answer);
    return () => {
      controller.abort();
      removeEventListener("message", answer);
    };
  }, [job.id]);
  useEffect(() => {
    frame.current?.contentWindow?.postMessage({ theme }, "*");
  }, [theme]);
  const save = () => {
    const name = `${job.name.replace(/\.[^.]*$/, "") || "model"}-report.html`;
    download(`v1/jobs/${job.id}/report`, name).catch((raised: unknown) => setError(messageOf(raised)));
  };
  return (
    <div class="reportview">
      <div class="filters">
        <span class="quiet">All passes, with texts, times and remarks</span>
        <span class="space" />
        <button onClick={save}>Save report</button>
      </div>
      {error && (
        <p class="message bad" role="alert">
          {error}
        </p>
      )}
      <iframe ref={frame} src={new URL(frameAddress(), BASE).href} sandbox="allow-scripts" title={`Report of ${visible(job.name)}`} />
    </div>
  );
}

function frameAddress(): string {
  return document.getElementById("app")!.dataset.report!;
}

async function read(id: string, signal: AbortSignal): Promise<{ index: string; texts: string }> {
  const response = await call(`v1/jobs/${id}/report`, { signal });
  const page = await response.text();
  // The data is in Base64. To parse the page would apply the policy of this one to it.
  const [index, texts] = ["apass-index", "apass-texts"].map((name) => new RegExp(`id="${name}">([^<]*)<`).exec(page)?.[1] ?? "");
  return { index, texts };
}
