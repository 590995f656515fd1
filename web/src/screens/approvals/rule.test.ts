import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ApprovalSchema } from "../../gen/palyra/v1/approvals_pb";
import { ruleFor } from "./rule";

test("a rule for what is asked again and again allows nothing by itself", () => {
  const approval = create(ApprovalSchema, { requestedBy: "agent:helper", prompt: { tool: "fs.write", argumentsJson: new TextEncoder().encode('{"path":"a"}'), askedLastWeek: 4n } });
  const rule = ruleFor(approval);
  expect(rule.name).toBe("50-fs-write-helper.cedar");
  expect(rule.text).toContain('permit(principal == Agent::"helper", action == Action::"tool.execute/fs.write", resource)\n// when { ... };');
  expect(rule.text.trimEnd().split("\n").filter((line) => !line.startsWith("//"))).toEqual([]);
  expect(rule.call).toEqual({ tool: "fs.write", principal: "agent:helper", input: '{\n  "path": "a"\n}', facts: "" });
});

test("a name that closes its quotes stays a name", () => {
  const rule = ruleFor(create(ApprovalSchema, { requestedBy: 'agent:x", y', prompt: { tool: 't"' } }));
  expect(rule.text).toContain('principal == Agent::"x\\", y"');
  expect(rule.text).toContain('Action::"tool.execute/t\\""');
  // Nor does it end the comment that it stands in.
  const broken = ruleFor(create(ApprovalSchema, { requestedBy: "agent:x", prompt: { tool: "t\npermit(principal, action, resource);" } }));
  expect(broken.text.trimEnd().split("\n").filter((line) => !line.startsWith("//"))).toEqual([]);
});
