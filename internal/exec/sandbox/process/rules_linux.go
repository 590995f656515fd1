package process

import (
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/hostfiles"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
)

// names returns the files of /etc by which programs find localhost and their user name. They
// are used on the rung with separate mounts. On the other rung programs see the host's files,
// which every user may read.
func names() []inside.File {
	return []inside.File{
		{Path: "/etc/passwd", Content: "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\ntool:x:1000:1000:tool:" + inside.TmpHome + ":/bin/sh\n"},
		{Path: "/etc/group", Content: "root:x:0:\ntool:x:1000:\n"},
		{Path: "/etc/hosts", Content: "127.0.0.1 localhost\n::1 localhost\n"},
		{Path: "/etc/nsswitch.conf", Content: "passwd: files\ngroup: files\nhosts: files dns\n"},
	}
}

// gitConfig is the path of the git configuration with the spec's author.
const gitConfig = inside.MountDir + "/gitconfig"

// bundle is the file with the certificate authorities that programs must trust if connections to
// one of their hosts are inspected.
const bundle = inside.MountDir + "/authorities.pem"

// networkFiles returns the files for a program with allowed hosts.
func (d *draft) networkFiles() []inside.File {
	files := []inside.File{{Path: "/etc/resolv.conf", Content: jail.Resolver}}
	if content := d.plan.Proxy.Bundle(); content != nil {
		d.plan.Bundle = bundle
		files = append(files, inside.File{Path: bundle, Content: string(content)})
	}
	return files
}

// facts returns entries of /proc about the machine, not about its processes.
func facts() []string {
	return []string{"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/loadavg", "/proc/version", "/proc/filesystems"}
}

// rules returns the Landlock rules. They grant access to the system's programs and the files that
// these need, the workspace, and the directories of the run. Everything else is denied, including
// listing the root directory and the homes of users.
func (d *draft) rules() []inside.Rule {
	var rules []inside.Rule
	grant := func(access inside.Access, paths ...string) {
		for _, p := range paths {
			rules = append(rules, inside.Rule{Path: p, Access: access})
		}
	}
	grant(inside.Execute, "/usr")
	grant(inside.Execute, directories(jail.SystemDirs())...)
	grant(inside.Read, existing(hostfiles.Harmless())...)
	grant(inside.Device, existing(jail.Devices())...)
	if d.plan.Staged {
		for _, f := range d.plan.Spec.Ground.Files {
			grant(inside.Read, replacedFile(f)...)
		}
		grant(inside.Read, "/proc")
		grant(inside.Full, inside.Tmp, "/dev/shm")
	} else {
		for _, f := range names() {
			grant(inside.Read, existing([]string{f.Path})...)
		}
		// /proc/self is the helper's own entry, which becomes the program's.
		grant(inside.Read, "/proc/self")
		grant(inside.Read, existing(facts())...)
		grant(inside.Full, d.home, d.tmp)
	}
	if d.gitConfig != "" && !d.plan.Staged {
		grant(inside.Read, d.gitConfig)
	}
	for _, dir := range command.Shown(d.spec.Toolchains) {
		// Under a daemon that is root, the sandbox's user must be able to enter the directory
		// itself.
		if !d.runner.machine.Root() || passable(dir) {
			grant(inside.Execute, dir)
		}
	}
	for _, place := range d.caches {
		if place != "" {
			grant(inside.Full, place)
		}
	}
	access := inside.Full
	if d.mode() == sandbox.ReadOnly {
		access = inside.Execute
	}
	grant(access, d.dir)
	return rules
}

// directories returns the paths that are directories and not links.
func directories(paths []string) []string {
	var list []string
	for _, p := range paths {
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			list = append(list, p)
		}
	}
	return list
}

// passable reports whether every user may enter a directory and its parents.
func passable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// replacedFile returns the path of a file that the helper mounts over a host file, or creates.
// It returns no path if the host has no entry to mount over (a dangling link counts as an
// entry).
func replacedFile(f inside.File) []string {
	if _, err := os.Lstat(f.Path); err != nil && !strings.HasPrefix(f.Path, inside.MountDir+"/") {
		return nil
	}
	return []string{f.Path}
}

func existing(paths []string) []string {
	var list []string
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			list = append(list, p)
		}
	}
	return list
}
