import { useMutation } from "@tanstack/react-query";
import { client } from "../../api/transport";
import type { Exam } from "../../gen/palyra/v1/console_pb";
import { ConsoleService } from "../../gen/palyra/v1/console_pb";
import { Section } from "../../shell/Screen";
import type { Tone } from "../../ui/Badge";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { CopyAsCli } from "../../ui/Copy";
import { ErrorState, Words } from "../../ui/State";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** What the doctor finds of everything that the gateway stands on. It looks when it is asked, for it takes a while. */
export function Exams() {
  const look = useMutation({ mutationFn: () => client(ConsoleService).examine({}) });
  return (
    <Section
      title="Doctor"
      actions={
        <>
          <Button size="small" needs="config.read" off={look.isPending ? "It is looking." : undefined} onClick={() => look.mutate()}>
            {look.data === undefined ? "Examine the gateway" : "Examine it again"}
          </Button>
          <CopyAsCli command="palyrad doctor" />
        </>
      }
    >
      <div role="status">
        {look.isPending && <p className="text-quiet">The doctor is looking…</p>}
        {look.isError && <ErrorState error={look.error} />}
        {look.isIdle && <p className="text-quiet">The doctor looks at everything that the gateway stands on, and changes nothing.</p>}
        {look.data !== undefined && (
          <>
            <p className="mb-2 text-quiet">
              {counted(look.data.exams)}, <Time at={look.data.at} />
            </p>
            <ul className="flex flex-col gap-2">
              {worstFirst(look.data.exams).map((exam) => (
                <li key={exam.check} className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
                  <Badge tone={tones[exam.result] ?? "warn"}>{exam.result}</Badge>
                  <Untrusted text={exam.check} className="font-semibold" />
                  <span className="min-w-0 flex-1 basis-64">
                    <Words text={exam.detail} />
                    {exam.remedy !== "" && (
                      <span className="block text-sm text-quiet">
                        <Words text={exam.remedy} />
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

function worstFirst(exams: readonly Exam[]): Exam[] {
  return [...exams].sort((a, b) => order.indexOf(a.result) - order.indexOf(b.result));
}

function counted(exams: readonly Exam[]): string {
  return order
    .map((result) => [exams.filter((exam) => exam.result === result).length, result] as const)
    .filter(([count]) => count > 0)
    .map(([count, result]) => `${count} ${result}`)
    .join(", ");
}
