import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client } from "../../api/transport";
import { PolicyService } from "../../gen/palyra/v1/policy_pb";
import { useQueryParam } from "../../shell/router";
import { Button } from "../../ui/Button";
import { TextField } from "../../ui/Field";
import { EmptyState, ErrorState, Loading } from "../../ui/State";
import { Explanation } from "./Explanation";

/** Why a call of the past was decided as it was, under the policies that decided it. */
export function Explain() {
  const [id, setId] = useQueryParam("id");
  const [typed, setTyped] = useState(id);
  const query = useQuery({
    queryKey: ["policy", "explain", id],
    enabled: id !== "",
    staleTime: Infinity,
    queryFn: ({ signal }) => client(PolicyService).explainPolicy({ subject: { case: "decisionId", value: id } }, { signal }),
  });
  const good = typed.trim().length === 26;
  return (
    <div className="flex flex-col gap-4">
      <form
        className="flex flex-wrap items-start gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (good) setId(typed.trim());
        }}
      >
        <div className="min-w-64 flex-1">
          <TextField label="Decision, call or approval" hint="The id of one, of 26 letters and digits." className="font-mono" value={typed} onChange={(event) => setTyped(event.target.value)} />
        </div>
        <Button type="submit" look="primary" className="sm:mt-6.5" needs="policy.explain" off={good ? undefined : "Give an id of 26 letters and digits."}>
          Explain it
        </Button>
      </form>
      {id === "" ? (
        <EmptyState title="Nothing to explain yet">Give an id, or come here from a call. A call that was not made is described under “Write and simulate”.</EmptyState>
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
