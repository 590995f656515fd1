import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ApprovalSchema } from "../../gen/palyra/v1/approvals_pb";
import { policyDraftFor } from "./policyDraft";

test("a draft for a frequent request allows nothing", () => {
  const approval = create(ApprovalSchema, { requestedBy: "agent:helper", prompt: { tool: "fs.write", argumentsJson: new TextEncoder().encode('{"path":"a"}'), askedLastWeek: 4n } });
  const draft = policyDraftFor(approval);
  expect(draft.name).toBe("50-fs-write-helper.cedar");
  expect(draft.text).toContain('permit(principal == Agent::"helper", action == Action::"tool.execute/fs.write", resource)\n// when { ... };');
  expect(draft.text.trimEnd().split("\n").filter((line) => !line.startsWith("//"))).toEqual([]);
  expect(draft.call).toEqual({ tool: "fs.write", principal: "agent:helper", input: '{\n  "path": "a"\n}', facts: "" });
});

test("names are quoted and cannot end the comment", () => {
  const rule = policyDraftFor(create(ApprovalSchema, { requestedBy: 'agent:x", y', prompt: { tool: 't"' } }));
  expect(rule.text).toContain('principal == Agent::"x\\", y"');
  expect(rule.text).toContain('Action::"tool.execute/t\\""');
  // A line break cannot end the comment.
  const broken = policyDraftFor(create(ApprovalSchema, { requestedBy: "agent:x", prompt: { tool: "t\npermit(principal, action, resource);" } }));
  expect(broken.text.trimEnd().split("\n").filter((line) => !line.startsWith("//"))).toEqual([]);
});
