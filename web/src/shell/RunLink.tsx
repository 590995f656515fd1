import { useQuery } from "@tanstack/react-query";
import { client } from "../api/transport";
import { GatewayService } from "../gen/palyra/v1/gateway_pb";
import { Untrusted } from "../ui/Untrusted";
import { ScreenLink } from "./router";

// The format of the gateway's run ids. Callers can name their own runs in any other format.
const runId = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** The run of a call or an event, as a link if the gateway has this run. A call without a run has its own id in this field. */
export function RunLink({ run }: { run: string }) {
  const { isSuccess } = useQuery({
    queryKey: ["run", run],
    queryFn: ({ signal }) => client(GatewayService).getRun({ runId: run }, { signal }),
    enabled: runId.test(run),
  });
  return isSuccess ? <ScreenLink to={`/runs/${run}`}>{run}</ScreenLink> : <Untrusted text={run} />;
}
