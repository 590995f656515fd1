import { useQuery } from "@tanstack/react-query";
import { client } from "../api/transport";
import { GatewayService } from "../gen/palyra/v1/gateway_pb";
import { hasScreen } from "../routes";
import { Untrusted } from "../ui/Untrusted";
import { ScreenLink } from "./router";

// The ids of the gateway's runs. Callers name their own runs in any other form.
const runId = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** The run of a call or an event: a link where the gateway has such a run. A call outside of runs has its own id there. */
export function RunLink({ run }: { run: string }) {
  const { isSuccess } = useQuery({
    queryKey: ["run", run],
    queryFn: ({ signal }) => client(GatewayService).getRun({ runId: run }, { signal }),
    enabled: runId.test(run) && hasScreen("/runs"),
  });
  return isSuccess ? <ScreenLink to={`/runs/${run}`}>{run}</ScreenLink> : <Untrusted text={run} />;
}
