package policy_test

import (
	"fmt"
	"testing"

	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
)

func TestProbe(t *testing.T) {
	for _, text := range []string{
		"permt(principal, action, resource);",
		"permit(principal, action, resource)\nwehn { true };",
		"permit(principal action, resource);",
		"permit(principal, action, resource) when { context.risk > };",
		"permit(principal, action, resource) when { true }",
		"permit(principal, action, resource) when { \"abc };",
		`permit(principal, action == Action::"tool.execute", resource);`,
		`permit(principal, action == Action::"tool.execute/fs.reed", resource);`,
		`forbid(principal, action in Action::"tool.execute", resource)
when {
	context.rsk > 3 };`,
		`forbid(principal, action == Action::"tool.execute/fs.read", resource) when { context.args.pth like "x*" };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context.args.path like "x*" };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context.host like "x*" };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context has hots && context.risk > 1 };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context.risk == "high" };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context.risk > 3 && context.tool_name };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { resource.sensitiv };`,
		`forbid(principal in Role::"secrity", action in Action::"tool.execute", resource);`,
		`forbid(principal == User::"alcie", action in Action::"tool.execute", resource);`,
		`forbid(principal == Usr::"alice", action in Action::"tool.execute", resource);`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context.approval.standing == true };`,
		`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && context.approval.standing };`,
		`permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted && context.approval.approvers < 5 };`,
		`forbid(principal, action in Action::"tool.execute", resource) unless { context.approval.approvers == 2 };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context.risk * 2 > 50 };`,
		`permit(principal, action in Action::"tool.execute", resource) when { false };`,
		`permit(principal, action, resource);`,
		`permit(principal, action in Action::"tool.execute", resource);`,
		`permit(principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.risk < 3 };`,
		`@waives("approval: x") permit(principal, action in Action::"tool.execute", resource) when { context.approval.granted };`,
		`@idd("x") @severity("hgih") @timeout("5") permit(principal, action in Action::"tool.execute", resource) when { resource.sensitive && context.approval.granted };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context has exec.inline_cod };`,
		`forbid(principal, action in Action::"tool.execute", resource) when { context has exec.inline_code && context.exec.inline_code && resource.read_only };`,
		`@id("a") forbid(principal, action in Action::"tool.execute", resource) when {context.risk > 50};
		@id("b") forbid(principal == User::"alice", action == Action::"tool.execute/fs.read", resource) when {context.risk > 50 && context.tainted};
		@id("c") forbid(principal == User::"alice", action == Action::"tool.execute/fs.read", resource) when {context.risk > 50 && context.session.tainted};`,
	} {
		fmt.Println("=====", text)
		for _, f := range policy.Check(policytest.Config(policytest.Options{Policies: text})) {
			if f.Code != policy.CodeOpaque {
				fmt.Println(f)
			}
		}
	}
}
