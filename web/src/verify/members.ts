// The allowed members of a statement. Other members are refused, because their meaning is
// unknown. Names with a question mark are optional.
export interface Members {
  readonly [name: string]: Members | readonly [Members] | null;
}

const file: Members = { path: null, sha256: null };

export const statement: Members = {
  _type: null,
  predicateType: null,
  subject: [{ name: null, digest: { sha256: null } }],
  predicate: {
    attestation_id: null,
    gateway: null,
    invocation: { proposal_id: null, decision_id: null, "approval_id?": null, "grant_id?": null, session: null, run: null, principal: null, on_behalf_of: null, tool: null, tool_definition_digest: null, call_digest: null },
    policy: { version: null, snapshot_digest: null, determining: null },
    executor: { name: null, version: null, tier: null, "backend?": null, "instance?": null },
    sandbox_enforcement: null,
    enforcement: { requested: null, applied: null, downgrades: null },
    "isolation?": {
      uid: null, gid: null, cap_eff: null, cap_bnd: null, cap_prm: null, no_new_privs: null, seccomp_mode: null, landlock_abi: null, "cgroup?": null, limits_by: null, "kernel?": null, "rung?": null, "workspace?": null,
      "watched?": null, "ports?": null, "captured?": null, "prepared?": null, namespaces: null, rlimits: null, "seccomp_sha256?": null, helper_sha256: null, arguments_sha256: null, "backend_sha256?": null,
    },
    egress: {
      mode: null, allowed: null, "missed?": null,
      observed: [{ host: null, port: null, address: null, bytes_out: null, bytes_in: null, verdict: null, "leg?": null, "rule?": null, "reason?": null, "requests?": null, "count?": null, "started_ns?": null, "duration_ns?": null }],
    },
    inputs: { arguments_digest: null, "executable?": file, files: [file], "unbound_arguments?": null },
    outputs: {
      "stdout_sha256?": null, "stderr_sha256?": null, "stdout_kept_sha256?": null, "stderr_kept_sha256?": null, stdout_bytes: null, stderr_bytes: null, result_sha256: null, result_bytes: null,
      "result_not_kept?": null, truncated: null, redactions: null, files: [{ workspace: null, path: null, was: null, is: null }],
    },
    "changes?": { state: null, workspace: null, "root_sha256?": null, added: null, modified: null, deleted: null, bytes: null, protected: null, "approval_id?": null, "grant_id?": null, "reason?": null },
    "violations?": { count: null, first: [{ at: null, syscall: null, arguments: null, executable: null, errno: null }] },
    "claim?": { agent: null, state: null, "input_sha256?": null, "response_sha256?": null, "response_bytes?": null },
    "grants?": [{ kind: null, name: null, uses: null, "refused?": null }],
    secrets: null,
    "journal?": { size: null, head_sha256: null },
    result: { outcome: null, "reason?": null, "exit_code?": null, "signal?": null, timed_out: null },
    usage: { wall_ns: null, cpu_ns: null, peak_memory_bytes: null, processes: null, "fuel_reported?": null },
    "limits?": [{ limit: null, unit: null, allowed: null, "used?": null, "effect?": null, "refused?": null }],
    times: { "proposed_at?": null, "decided_at?": null, "approved_at?": null, "started_at?": null, "finished_at?": null, attested_at: null },
    execution_sha256: null,
  },
};
