//go:build linux

package attack

import (
	"time"
)

// resourceRows are RES-01 to RES-09: resources that a program can exhaust, and programs that
// try to outlive their call.
func resourceRows() []row {
	const bombs, use, going = "fork bombs", "exhaustion", "processes that outlive their call"
	few := func(c *scene) { c.spec.Limits.Processes = 64 }
	small := func(c *scene) {
		c.spec.Limits.Memory, c.spec.Limits.Tmp, c.spec.Limits.FileSize = 48<<20, 512<<20, 512<<20
	}
	return []row{
		{id: "RES-01", variant: "fork bomb", source: bombs, groups: true, walls: layers(groups, rlimits), probe: probe("fork", "200"), prepare: few},
		{id: "RES-01", variant: "thread bomb", source: bombs, groups: true, walls: layers(groups, rlimits), probe: probe("thread", "200"), prepare: few},

		{id: "RES-02", variant: "anonymous memory", source: use, groups: true, walls: layers(groups, rlimits), probe: probe("anonymous", "96"), prepare: small},
		{id: "RES-02", variant: "tmpfs /tmp", source: use, groups: true, walls: layers(groups), probe: probe("tmp-fill", "96"), prepare: small},
		{id: "RES-02", variant: "tmpfs /dev/shm", source: use, groups: true, walls: layers(groups), probe: probe("shm-fill", "96"), prepare: small},
		{id: "RES-02", variant: "size of /tmp", source: use, walls: layers("tmp limit"), probe: probe("tmp-fill", "16"),
			prepare: func(c *scene) { c.spec.Limits.Tmp = 8 << 20 }, lift: func(c *scene) { c.spec.Limits.Tmp = 64 << 20 }},
		{id: "RES-02", variant: "page cache", source: use, groups: true, walls: layers(groups), probe: probe("page-cache", "96"), prepare: small},
		{id: "RES-02", variant: "mlock", source: use, walls: layers(rlimits), probe: probe("mlock", "1")},
		{id: "RES-02", variant: "pipes", source: use, groups: true, walls: layers(groups), probe: probe("pipes", "56"), prepare: small},
		{id: "RES-02", variant: "socket buffers", source: use, groups: true, walls: layers(groups), probe: probe("sockets", "64"), prepare: small},

		{id: "RES-03", variant: "many processes spin", source: use, groups: true, walls: layers(groups), probe: probe("spin", "6", "500ms"),
			prepare: func(c *scene) { c.spec.Limits.CPU = 500 * time.Millisecond }},
		{id: "RES-03", variant: "one process spins", source: use, groups: true, walls: layers("cpu limit"), probe: probe("burn", "2s"),
			prepare: func(c *scene) { c.spec.Limits.CPU = 300 * time.Millisecond }, lift: func(c *scene) { c.spec.Limits.CPU = time.Minute }},

		{id: "RES-04", variant: "disk fill", source: use, walls: layers("disk limit"), probe: probe("fill", "64"),
			prepare: func(c *scene) { c.spec.Limits.Disk = 8 << 20 }, lift: func(c *scene) { c.spec.Limits.Disk = 1 << 30 }},
		{id: "RES-04", variant: "inode bomb", source: use, walls: layers("files limit"), probe: probe("many-files", "20000"),
			prepare: func(c *scene) { c.spec.Limits.Files = 1000 }, lift: func(c *scene) { c.spec.Limits.Files = 100_000 }},
		{id: "RES-04", variant: "deep directory", source: use, walls: layers("files limit"), probe: probe("deep", "2000"),
			prepare: func(c *scene) { c.spec.Limits.Files = 200 }, lift: func(c *scene) { c.spec.Limits.Files = 100_000 }},
		{id: "RES-04", variant: "one giant file", source: use, walls: layers(rlimits), probe: probe("grow", "16"),
			prepare: func(c *scene) { c.spec.Limits.FileSize = 8 << 20 }},

		{id: "RES-05", variant: "flood of output", source: use, walls: layers("output limit"), probe: probe("output", "16", "lines"),
			prepare: func(c *scene) { c.spec.Limits.Output = 4096 }, lift: func(c *scene) { c.spec.Limits.Output = 1 << 20 }},
		{id: "RES-05", variant: "one endless line", source: use, walls: layers("output limit"), probe: probe("output", "16", "line"),
			prepare: func(c *scene) { c.spec.Limits.Output = 4096 }, lift: func(c *scene) { c.spec.Limits.Output = 1 << 20 }},
		{id: "RES-05", variant: "slow drip", source: use, walls: layers("deadline"), probe: probe("outlast", "2s", "drip"),
			prepare: short, lift: long},
		{id: "RES-05", variant: "escape sequences", source: use},
		{id: "RES-05", variant: "standard output held after the end", source: going, groups: true, walls: layers(pidNS, groups), probe: probe("survive", "asleep"),
			prepare: func(c *scene) { c.args = []string{c.token, "end"} }, effect: alive},

		{id: "RES-06", variant: "SIGTERM ignored", source: going, groups: true, walls: layers(pidNS, groups), probe: probe("survive", "asleep"), prepare: untilDeadline, effect: alive},
		{id: "RES-06", variant: "double fork and setsid", source: going, groups: true, walls: layers(pidNS, groups), probe: probe("survive", "forked"), prepare: untilDeadline, effect: alive},
		{id: "RES-06", variant: "SIGSTOP of itself", source: going, groups: true, walls: layers(pidNS, groups), probe: probe("survive", "stopped"), prepare: untilDeadline, effect: alive},
		{id: "RES-06", variant: "vfork storm", source: going, groups: true, walls: layers(pidNS, groups), probe: probe("survive", "vfork"), prepare: untilDeadline, effect: alive},
		{id: "RES-06", variant: "zombie storm", source: bombs, groups: true, walls: layers(groups, rlimits), probe: probe("zombie", "200"), prepare: few},
		{id: "RES-07", variant: "signals ignored at the deadline", source: going, walls: layers("deadline"), probe: probe("outlast", "2s", "quiet"), prepare: short, lift: long},
		{id: "RES-08", variant: "sleep past the deadline", source: going, walls: layers("deadline"), probe: probe("outlast", "3s", "quiet"), prepare: short, lift: long},
		{id: "RES-08", variant: "timers", source: use, walls: layers(rlimits), probe: probe("timers", "2000")},
		{id: "RES-09", variant: "descriptors", source: use, walls: layers(rlimits), probe: probe("descriptors", "900"),
			prepare: func(c *scene) { c.spec.Limits.OpenFiles = 64 }},
		{id: "RES-09", variant: "core dumps", source: use, walls: layers(rlimits), probe: probe("core")},
	}
}

func short(c *scene) { c.spec.Limits.Wall = 500 * time.Millisecond }

func long(c *scene) { c.spec.Limits.Wall = patience }

func untilDeadline(c *scene) {
	c.spec.Limits.Wall = time.Second // the processes must be running until then
	c.args = []string{c.token, "wait"}
}
