import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import { client } from "../../api/transport";
import type { Token } from "../../gen/palyra/v1/tokens_pb";
import { TokenService } from "../../gen/palyra/v1/tokens_pb";
import { Screen } from "../../shell/Screen";
import { useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { toMillis } from "../../text/time";
import { ActionButton } from "../../ui/ActionButton";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { useNow } from "../../ui/clock";
import { Copy } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Checkbox, Select, TextField } from "../../ui/Field";
import { Meta } from "../../ui/Meta";
import { EmptyState, ErrorState, Loading, Notice } from "../../ui/State";
import { Table } from "../../ui/Table";
import { Time } from "../../ui/Time";
import { Untrusted } from "../../ui/Untrusted";

/** The API tokens with their holders, permissions and revocation. */
export default function Tokens() {
  const [all, setAll] = useQueryParam("all", "no");
  const [isCreating, setIsCreating] = useState(false);
  const now = useNow();
  const query = useQuery({ queryKey: ["tokens", all], queryFn: ({ signal }) => client(TokenService).listTokens({ all: all === "yes" }, { signal }) });
  const hasEnded = (token: Token) => token.revokedAt !== undefined || (toMillis(token.expiresAt) ?? Infinity) <= now;
  return (
    <Screen
      title="API tokens"
      command={palyra("tokens", "list", ...(all === "yes" ? ["--all"] : []))}
      fill
      actions={
        <>
          <Checkbox label="Include ended tokens" checked={all === "yes"} onChange={(event) => setAll(event.target.checked ? "yes" : "no")} />
          <Button size="small" variant="primary" needs="token.create" onClick={() => setIsCreating(true)}>
            Create a token
          </Button>
        </>
      }
    >
      {query.isPending ? (
        <Loading what="tokens" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.tokens.length === 0 ? (
        <EmptyState title="No tokens">MCP clients, CI and hooks without a certificate authenticate with a token.</EmptyState>
      ) : (
        <Table
          label="API tokens"
          rows={query.data.tokens}
          rowKey={(token) => token.tokenId}
          rowHeight={68}
          isDimmed={hasEnded}
          columns={[
            { id: "name", label: "Token", className: "grow", cell: (token) => <TokenCell token={token} /> },
            { id: "used", label: "Last used", className: "w-28 max-sm:hidden", cell: (token) => <Time at={token.lastUsedAt} /> },
            { id: "ends", label: "Expires", className: "w-28", cell: (token) => (hasEnded(token) ? <Badge tone="bad">{token.revokedAt === undefined ? "expired" : "revoked"}</Badge> : <Time at={token.expiresAt} />) },
            { id: "act", label: "Action", className: "w-24 text-right", cell: (token) => !hasEnded(token) && <Revoke token={token} /> },
          ]}
        />
      )}
      {isCreating && <CreateDialog onClose={() => setIsCreating(false)} />}
    </Screen>
  );
}

function TokenCell({ token }: { token: Token }) {
  return (
    <>
      <span className="block truncate">
        <Untrusted text={token.name} line={80} className="font-semibold" />
      </span>
      <Meta>
        <Untrusted text={token.principal} line={60} />
        <Untrusted text={token.scopes.join(" ")} line={120} />
      </Meta>
    </>
  );
}

function Revoke({ token }: { token: Token }) {
  return (
    <ActionButton label="Revoke" title="Revoke this token?" confirmLabel="Revoke the token" announcement="The token is revoked." variant="bad" needs="token.revoke" keys={["tokens"]} run={() => client(TokenService).revokeToken({ tokenId: token.tokenId })}>
      <p>
        <Untrusted text={token.name} /> of <Untrusted text={token.principal} /> ends immediately, and so do its active requests. This cannot be undone.
      </p>
    </ActionButton>
  );
}

const day = 86_400_000;

function CreateDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [principal, setPrincipal] = useState("");
  const [scopes, setScopes] = useState("tool.call tool.list");
  const [life, setLife] = useState("30");
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: () => client(TokenService).createToken({ name: name.trim(), principal: principal.trim(), scopes: scopes.split(/\s+/).filter(Boolean), life: durationFromMs(Number(life) * day) }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["tokens"] }),
  });
  const text = create.data?.text;
  return (
    <Dialog open onClose={onClose} title={text === undefined ? "Create an API token" : "Your token"}>
      {text === undefined ? (
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim() !== "" && !create.isPending) create.mutate();
          }}
        >
          <TextField label="Name" hint="The purpose of the token." value={name} maxLength={128} required onChange={(event) => setName(event.target.value)} />
          <TextField label="Member" hint="The holder: agent:NAME of yours, or empty for yourself." value={principal} onChange={(event) => setPrincipal(event.target.value)} />
          <TextField label="Permissions" hint="Separated by spaces. A token never has more permissions than its holder and its creator." value={scopes} onChange={(event) => setScopes(event.target.value)} />
          <Select label="Expires in" value={life} onChange={(event) => setLife(event.target.value)} options={["1", "7", "30", "90"].map((days) => ({ value: days, label: days === "1" ? "1 day" : `${days} days` }))} />
          {create.isError && <ErrorState error={create.error} />}
          <div className="flex justify-end gap-2">
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" variant="primary" disabledReason={name.trim() === "" ? "Enter a name." : create.isPending ? "In progress." : undefined}>
              Create the token
            </Button>
          </div>
        </form>
      ) : (
        <div className="flex flex-col gap-3">
          <Notice tone="warn">The token is shown only once. The gateway stores only its digest.</Notice>
          <code className="rounded border border-line bg-panel p-3 font-mono text-sm break-all">{text}</code>
          <div className="flex justify-end gap-2">
            <Copy text={text} label="Copy the token" />
            <Button variant="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  );
}
