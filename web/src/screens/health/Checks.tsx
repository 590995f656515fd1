import { useMutation } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { Exam } from "../../gen/palyra/v1/console_pb";
import { ConsoleService } from "../../gen/palyra/v1/console_pb";
import { Section } from "../../shell/Screen";
import type { Tone } from "../../ui/Badge";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { CopyAsCli } from "../../ui/Copy";
import { ErrorState, CommandText } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The checks of `palyrad doctor`. They run on request because they take a while. */
export function Checks() {
  const examine = useMutation({ mutationFn: () => client(ConsoleService).examine({}) });
  return (
    <Section
      title="Doctor"
      actions={
        <>
          <Button size="small" needs="config.read" disabledReason={examine.isPending ? "The checks are running." : undefined} onClick={() => examine.mutate()}>
            {examine.data === undefined ? "Run the checks" : "Run again"}
          </Button>
          <CopyAsCli command="palyrad doctor" />
        </>
      }
    >
      <div role="status">
        {examine.isPending && <p className="text-quiet">Running the checks…</p>}
        {examine.isError && <ErrorState error={examine.error} />}
        {examine.isIdle && <p className="text-quiet">The doctor checks everything that the gateway depends on, without changing anything.</p>}
        {examine.data !== undefined && (
          <>
            <p className="mb-2 text-quiet">
              {summarize(examine.data.exams)}, <Time at={examine.data.at} />
            </p>
            <ul className="flex flex-col gap-2">
              {sortByResult(examine.data.exams).map((exam) => (
                <li key={exam.check} className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
                  <Badge tone={tones[exam.result] ?? "warn"}>{exam.result}</Badge>
                  <Untrusted text={exam.check} className="font-semibold" />
                  <span className="min-w-0 flex-1 basis-64">
                    <CommandText text={exam.detail} />
                    {exam.remedy !== "" && (
                      <span className="block text-sm text-quiet">
                        <CommandText text={exam.remedy} />
                      </span>
                    )}
                  </span>
                  <span className="text-sm text-quiet">{exam.tookMs.toLocaleString()} ms</span>
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
    </Section>
  );
}

const tones: Record<string, Tone> = { ok: "good", warning: "warn", failed: "bad", skipped: "plain" };
const order = ["failed", "warning", "ok", "skipped"];

function sortByResult(exams: readonly Exam[]): Exam[] {
  return [...exams].sort((a, b) => order.indexOf(a.result) - order.indexOf(b.result));
}

function summarize(exams: readonly Exam[]): string {
  return order
    .map((result) => [exams.filter((exam) => exam.result === result).length, result] as const)
    .filter(([count]) => count > 0)
    .map(([count, result]) => `${count} ${result}`)
    .join(", ");
}
