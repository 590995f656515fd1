import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { useQueryParam } from "../../shell/router";
import { Button } from "../../ui/Button";
import { TextField } from "../../ui/Field";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Explanation } from "./Explanation";

/** Explains the decision on an earlier call, under the policies that decided it. */
export function Explain() {
  const [id, setId] = useQueryParam("id");
  const [input, setInput] = useState(id);
  const query = useQuery({
    queryKey: ["policy", "explain", id],
    enabled: id !== "",
    staleTime: Infinity,
    queryFn: ({ signal }) => client(PolicyService).explainPolicy({ subject: { case: "decisionId", value: id } }, { signal }),
  });
  const good = input.trim().length === 26;
  return (
    <div className="flex flex-col gap-4">
      <form
        className="flex flex-wrap items-start gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (good) setId(input.trim());
        }}
      >
        <div className="min-w-64 flex-1">
          <TextField label="Decision, call or approval" hint="An id of 26 letters and digits." className="font-mono" value={input} onChange={(event) => setInput(event.target.value)} />
        </div>
        <Button type="submit" variant="primary" className="sm:mt-6.5" needs="policy.explain" disabledReason={good ? undefined : "Enter an id of 26 letters and digits."}>
          Explain
          </Button>
      </form>
      {id === "" ? (
        <EmptyState title="No decision selected">Enter an id, or follow the link from a call. To explain a hypothetical call, use “Write and simulate”.</EmptyState>
      ) : query.isPending ? (
        <Loading what="the explanation" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <Explanation of={query.data} />
      )}
    </div>
  );
}
