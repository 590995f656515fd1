//go:build linux

package checks

import (
	"archive/zip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The services of macOS and Windows were not run there: these cases examine their definitions.

func TestFormula(t *testing.T) {
	t.Parallel()
	check(t, "formula: Ruby reads it, and its archives have the digests of the list", func(t *testing.T) {
		name := artifact(t, packageDir, "palyra.rb")
		run(t, "ruby", "-c", name).succeeds(t).prints(t, "Syntax OK")
		text := string(must(os.ReadFile(name))(t))
		if strings.Contains(text, "{{") {
			t.Fatalf("the formula is incomplete: %s", text)
		}
		list := string(must(os.ReadFile(filepath.Join(packageDir, "SHA256SUMS")))(t))
		pairs := 0
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			url, ok := strings.CutPrefix(strings.TrimSpace(line), `url "`)
			if !ok {
				continue
			}
			pairs++
			digest := strings.Trim(strings.TrimPrefix(strings.TrimSpace(lines[i+1]), "sha256 "), `"`)
			archive := strings.TrimSuffix(url[strings.LastIndex(url, "/")+1:], `"`)
			if !strings.Contains(list, digest+"  "+archive+"\n") {
				t.Errorf("the list has no line %s  %s", digest, archive)
			}
		}
		if pairs != 4 {
			t.Fatalf("the formula has %d archives, want 4: two systems on two architectures", pairs)
		}
		// Control: Ruby refuses a formula without its last line.
		broken := filepath.Join(t.TempDir(), "broken.rb")
		writeFile(t, broken, strings.TrimSuffix(strings.TrimSpace(text), "end"), 0o644)
		run(t, "ruby", "-c", broken).refuses(t)
	})
	check(t, "formula: its methods install files of the archive", func(t *testing.T) {
		// A stand-in for Homebrew's class records what the formula calls.
		dir := t.TempDir()
		run(t, "tar", "-C", dir, "--strip-components=1", "-xzf", artifact(t, packageDir, "palyra_*_darwin_arm64.tar.gz")).succeeds(t)
		script := filepath.Join(t.TempDir(), "run.rb")
		writeFile(t, script, brewStandIn+"\nload ARGV[0]\nDir.chdir(ARGV[1])\nformula = Palyra.new\nformula.install\n$installed.each { |name, files| abort \"#{name} installs nothing\" if files.empty?; puts \"#{name} #{files.join(' ')}\" }\n", 0o644)
		run(t, "ruby", script, artifact(t, packageDir, "palyra.rb"), dir).succeeds(t).
			prints(t, "bin/palyra ", "bin/palyrad", "man1 share/man/man1/palyra.1", "man8 share/man/man8/palyrad.8", "bash_completion share/", "zsh_completion share/", "fish_completion share/", "LICENSE", "THIRD-PARTY-NOTICES")
	})
}

const brewStandIn = `
$installed = {}
class Formula
  def self.method_missing(name, *, &block) = (instance_eval(&block) if block && %i[on_macos on_linux on_arm on_intel].include?(name))
  def self.respond_to_missing?(*) = true
  def self.test = nil
  %i[bin man1 man8 bash_completion zsh_completion fish_completion doc].each do |name|
    define_method(name) { Struct.new(:name) { def install(files) = ($installed[name] = files) }.new(name) }
  end
end`

// launchdKeys are keys of launchd.plist(5) that the agent may use.
var launchdKeys = []string{"Label", "ProgramArguments", "EnvironmentVariables", "RunAtLoad", "KeepAlive", "SuccessfulExit", "ExitTimeOut", "ProcessType", "StandardErrorPath", "StandardOutPath", "WorkingDirectory", "ThrottleInterval"}

func TestLaunchAgent(t *testing.T) {
	t.Parallel()
	check(t, "launchd: the agent is a property list with keys of launchd", func(t *testing.T) {
		text := inArchive(t, "palyra_*_darwin_arm64.tar.gz", "lib/launchd/dev.palyra.palyrad.plist")
		do(t, examinePlist(text))
		for _, broken := range []string{
			strings.Replace(text, "RunAtLoad", "RunAtLoads", 1), strings.Replace(text, "<true/>", "", 1),
			strings.Replace(text, "</dict>", "", 1), strings.Replace(text, "<dict>", "<dict><true/>", 1),
			strings.Replace(text, `version="1.0">`+"\n<dict", `version="1.0"><!ENTITY a "b">`+"\n<dict", 1),
		} {
			if broken == text || examinePlist(broken) == nil {
				t.Errorf("a broken property list is accepted:\n%s", broken)
			}
		}
	})
}

// examinePlist parses a property list whose values are dictionaries, arrays, strings, numbers and
// Booleans. Entities of its document type are not resolved.
func examinePlist(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	root, err := nextElement(d)
	if err != nil || root == nil || root.Name.Local != "plist" {
		return fmt.Errorf("the root element is not plist: %w", err)
	}
	value, err := nextElement(d)
	if err != nil || value == nil || value.Name.Local != "dict" {
		return fmt.Errorf("the plist is not a dictionary: %w", err)
	}
	if err := examineValue(d, *value); err != nil {
		return err
	}
	rest, err := nextElement(d)
	if err != nil || rest != nil {
		return fmt.Errorf("the plist has more than one value: %w", err)
	}
	return nil
}

// nextElement returns the next start element, or nil at the end of the enclosing one.
func nextElement(d *xml.Decoder) (*xml.StartElement, error) {
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			return &token, nil
		case xml.EndElement:
			return nil, nil //nolint:nilnil // the end is no element and no error
		case xml.Directive:
			if !strings.HasPrefix(string(token), "DOCTYPE plist ") {
				return nil, fmt.Errorf("unexpected directive %q", token)
			}
		case xml.CharData:
			if strings.TrimSpace(string(token)) != "" {
				return nil, fmt.Errorf("unexpected text %q", token)
			}
		}
	}
}

func examineValue(d *xml.Decoder, start xml.StartElement) error {
	switch start.Name.Local {
	case "dict":
		return examineDict(d)
	case "array":
		for {
			value, err := nextElement(d)
			if err != nil || value == nil {
				return err
			}
			if err := examineValue(d, *value); err != nil {
				return err
			}
		}
	case "string", "integer", "true", "false":
		return d.Skip()
	}
	return fmt.Errorf("%s is not a value of a property list", start.Name.Local)
}

func examineDict(d *xml.Decoder) error {
	for {
		key, err := nextElement(d)
		if err != nil || key == nil {
			return err
		}
		var name string
		if key.Name.Local != "key" {
			return fmt.Errorf("a dictionary has %s in the place of a key", key.Name.Local)
		}
		if err := d.DecodeElement(&name, key); err != nil {
			return err
		}
		if !slices.Contains(launchdKeys, name) {
			return fmt.Errorf("launchd does not know the key %q", name)
		}
		value, err := nextElement(d)
		if err != nil || value == nil {
			return fmt.Errorf("the key %q has no value: %w", name, err)
		}
		if err := examineValue(d, *value); err != nil {
			return err
		}
	}
}

// task is a scheduled task, with the elements that the definition uses.
type task struct {
	XMLName  xml.Name `xml:"http://schemas.microsoft.com/windows/2004/02/mit/task Task"`
	Version  string   `xml:"version,attr"`
	Triggers struct {
		Logon struct{ UserId string } `xml:"LogonTrigger"`
	}
	Principals struct {
		Principal struct {
			ID                          string `xml:"id,attr"`
			UserId, LogonType, RunLevel string
		}
	}
	Settings struct{ MultipleInstancesPolicy, ExecutionTimeLimit string }
	Actions  struct {
		Context string `xml:",attr"`
		Exec    struct{ Command string }
	}
}

func TestScheduledTask(t *testing.T) {
	t.Parallel()
	check(t, "windows: the scheduled task is one that its schema permits", func(t *testing.T) {
		text := inZip(t, "palyra_*_windows_amd64.zip", "lib/windows/palyrad.xml")
		var parsed task
		do(t, xml.Unmarshal([]byte(text), &parsed))
		do(t, knownElements(text))
		principal := parsed.Principals.Principal
		if principal.RunLevel != "LeastPrivilege" || principal.LogonType != "InteractiveToken" || principal.UserId != "@USER@" || parsed.Triggers.Logon.UserId != "@USER@" {
			t.Errorf("the task runs as %+v at %+v", principal, parsed.Triggers)
		}
		if parsed.Actions.Context != principal.ID || parsed.Actions.Exec.Command != `"@BINDIR@\palyrad.exe"` || parsed.Settings.ExecutionTimeLimit != "PT0S" {
			t.Errorf("the task does %+v with %+v", parsed.Actions, parsed.Settings)
		}
		// Controls: another namespace and an unknown element.
		if xml.Unmarshal([]byte(strings.Replace(text, "mit/task", "mit/job", 1)), new(task)) == nil {
			t.Error("a task of another namespace is accepted")
		}
		if knownElements(strings.ReplaceAll(text, "RestartOnFailure", "Restart")) == nil {
			t.Error("an unknown element is accepted")
		}
	})
	check(t, "windows: register.ps1 fills in what the task needs", func(t *testing.T) {
		text := inZip(t, "palyra_*_windows_amd64.zip", "lib/windows/register.ps1")
		for _, want := range []string{"@USER@", "@BINDIR@", "Register-ScheduledTask", "palyrad.xml"} {
			if !strings.Contains(text, want) {
				t.Errorf("register.ps1 lacks %q", want)
			}
		}
		if strings.Count(text, "{") != strings.Count(text, "}") || strings.Count(text, "(") != strings.Count(text, ")") {
			t.Error("register.ps1 has brackets that do not match")
		}
	})
}

// taskElements are the elements of a task that the definition may use.
var taskElements = strings.Fields(`Task RegistrationInfo Description Triggers LogonTrigger Enabled UserId Principals Principal LogonType RunLevel
	Settings MultipleInstancesPolicy DisallowStartIfOnBatteries StopIfGoingOnBatteries ExecutionTimeLimit RestartOnFailure Interval Count Actions Exec Command`)

func knownElements(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if start, ok := token.(xml.StartElement); ok && !slices.Contains(taskElements, start.Name.Local) {
			return fmt.Errorf("a task has no element %s", start.Name.Local)
		}
	}
}

// inArchive returns a file of a tar archive, whose names begin with the archive's folder.
func inArchive(t *testing.T, pattern, name string) string {
	t.Helper()
	archive := artifact(t, packageDir, pattern)
	top := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
	return run(t, "tar", "-xzOf", archive, top+"/"+name).succeeds(t).out
}

func inZip(t *testing.T, pattern, name string) string {
	t.Helper()
	archive := artifact(t, packageDir, pattern)
	reader := must(zip.OpenReader(archive))(t)
	defer reader.Close()
	file := must(reader.Open(strings.TrimSuffix(filepath.Base(archive), ".zip") + "/" + name))(t)
	defer file.Close()
	return string(must(io.ReadAll(file))(t))
}
