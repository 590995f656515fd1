package sandbox

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"

	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// mostRefused is the maximum number of refusals that a result lists.
const mostRefused = 20

// Refused returns what the sandbox refused to the program: system calls, and hosts that the proxy
// or the name service denied. more counts the attempts that are not listed. Refusals by Landlock
// and by permissions of files are not listed: the program gets EACCES, and the kernel reports them
// to the audit log only, which no ordinary process can read. A notification for each opened file
// would cost every program more than the list is worth.
func (r Report) Refused() (list []tool.Refusal, more int) {
	var all []tool.Refusal
	add := func(refusal tool.Refusal) {
		same := func(other tool.Refusal) bool {
			return other.By == refusal.By && other.Operation == refusal.Operation && other.Reason == refusal.Reason
		}
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].Count += refusal.Count
		} else if len(all) < mostRefused {
			all = append(all, refusal)
		} else {
			more += refusal.Count
		}
	}
	for _, v := range r.Violations {
		add(tool.Refusal{By: "seccomp", Operation: v.Syscall, Reason: v.Errno, Count: 1})
	}
	for _, c := range r.Connections {
		if c.Verdict == egress.VerdictDenied {
			add(tool.Refusal{By: "network", Operation: deniedTarget(c), Reason: c.Reason, Count: max(1, c.Count)})
		}
	}
	for _, refusal := range r.Refusals {
		add(refusal)
	}
	return all, more + r.ViolationsMissed + r.RefusalsMissed
}

func deniedTarget(c tool.Connection) string {
	if c.Port == 0 || c.Host == "" {
		return cmp.Or(c.Host, "several hosts")
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
}

// DescribeRefusal returns a sentence about a refused system call.
func DescribeRefusal(r tool.Refusal) string {
	return fmt.Sprintf("The sandbox refused the program %s (%s, %s).", r.Operation, r.Reason, text.Plural(r.Count, "time"))
}
