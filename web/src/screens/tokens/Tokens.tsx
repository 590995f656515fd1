import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import { client } from "../../api/transport";
import type { Token } from "../../gen/palyra/v1/tokens_pb";
import { TokenService } from "../../gen/palyra/v1/tokens_pb";
import { Screen } from "../../shell/Screen";
import { useQueryParam } from "../../shell/router";
import { palyra } from "../../text/cli";
import { ms } from "../../text/time";
import { Act } from "../../ui/Act";
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

/** API tokens: whose they are, what they may, and how to end them. */
export default function Tokens() {
  const [all, setAll] = useQueryParam("all", "no");
  const [making, setMaking] = useState(false);
  const now = useNow();
  const query = useQuery({ queryKey: ["tokens", all], queryFn: ({ signal }) => client(TokenService).listTokens({ all: all === "yes" }, { signal }) });
  const ended = (token: Token) => token.revokedAt !== undefined || (ms(token.expiresAt) ?? Infinity) <= now;
  return (
    <Screen
      title="API tokens"
      command={palyra("tokens", "list", ...(all === "yes" ? ["--all"] : []))}
      fill
      actions={
        <>
          <Checkbox label="Also those that ended" checked={all === "yes"} onChange={(event) => setAll(event.target.checked ? "yes" : "no")} />
          <Button size="small" look="primary" needs="token.create" onClick={() => setMaking(true)}>
            Make a token
          </Button>
        </>
      }
    >
      {query.isPending ? (
        <Loading what="tokens" />
      ) : query.isError ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : query.data.tokens.length === 0 ? (
        <EmptyState title="There is no token">MCP clients, CI and hooks come in with one, where they have no certificate.</EmptyState>
      ) : (
        <Table
          label="API tokens"
          rows={query.data.tokens}
          rowKey={(token) => token.tokenId}
          rowHeight={68}
          dim={ended}
          columns={[
            { id: "name", label: "Token", className: "grow", cell: (token) => <Named token={token} /> },
            { id: "used", label: "Last used", className: "w-28 max-sm:hidden", cell: (token) => <Time at={token.lastUsedAt} /> },
            { id: "ends", label: "Ends", className: "w-28", cell: (token) => (ended(token) ? <Badge tone="bad">{token.revokedAt === undefined ? "expired" : "revoked"}</Badge> : <Time at={token.expiresAt} />) },
            { id: "act", label: "Act", className: "w-24 text-right", cell: (token) => !ended(token) && <Revoke token={token} /> },
          ]}
        />
      )}
      {making && <Make onClose={() => setMaking(false)} />}
    </Screen>
  );
}

function Named({ token }: { token: Token }) {
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
    <Act label="Revoke" title="Revoke this token?" does="Revoke the token" said="The token is revoked." look="bad" needs="token.revoke" keys={["tokens"]} run={() => client(TokenService).revokeToken({ tokenId: token.tokenId })}>
      <p>
        <Untrusted text={token.name} /> of <Untrusted text={token.principal} /> ends at once, and what is under way with it. This cannot be undone.
      </p>
    </Act>
  );
}

const day = 86_400_000;

function Make({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [principal, setPrincipal] = useState("");
  const [scopes, setScopes] = useState("tool.call tool.list");
  const [life, setLife] = useState("30");
  const queries = useQueryClient();
  const make = useMutation({
    mutationFn: () => client(TokenService).createToken({ name: name.trim(), principal: principal.trim(), scopes: scopes.split(/\s+/).filter(Boolean), life: durationFromMs(Number(life) * day) }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["tokens"] }),
  });
  const text = make.data?.text;
  return (
    <Dialog open onClose={onClose} title={text === undefined ? "Make an API token" : "The token"}>
      {text === undefined ? (
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim() !== "" && !make.isPending) make.mutate();
          }}
        >
          <TextField label="Name" hint="What it is for." value={name} maxLength={128} required onChange={(event) => setName(event.target.value)} />
          <TextField label="Member" hint="Whose token: agent:NAME of yours; empty for your own." value={principal} onChange={(event) => setPrincipal(event.target.value)} />
          <TextField label="Permissions" hint="Separated by spaces. A token never may more than its holder and its maker." value={scopes} onChange={(event) => setScopes(event.target.value)} />
          <Select label="It ends in" value={life} onChange={(event) => setLife(event.target.value)} options={["1", "7", "30", "90"].map((days) => ({ value: days, label: days === "1" ? "1 day" : `${days} days` }))} />
          {make.isError && <ErrorState error={make.error} />}
          <div className="flex justify-end gap-2">
            <Button onClick={onClose}>Leave it</Button>
            <Button type="submit" look="primary" off={name.trim() === "" ? "Give it a name." : make.isPending ? "On its way." : undefined}>
              Make the token
            </Button>
          </div>
        </form>
      ) : (
        <div className="flex flex-col gap-3">
          <Notice tone="warn">It is shown once. The gateway keeps only its digest.</Notice>
          <code className="rounded border border-line bg-panel p-3 font-mono text-sm break-all">{text}</code>
          <div className="flex justify-end gap-2">
            <Copy text={text} label="Copy the token" />
            <Button look="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  );
}
