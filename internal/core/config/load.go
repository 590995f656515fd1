package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// LoadOptions are the sources of a configuration.
type LoadOptions struct {
	// Path is the file. Empty means PALYRA_CONFIG, or else the default file, which need not exist.
	Path string
	// Env looks up a variable; nil means os.Getenv. An empty variable counts as not set.
	Env func(string) string
	// Environ lists the variables as os.Environ does, to find unknown variables. nil means
	// os.Environ, or no variables if Env is set.
	Environ func() []string
	// Flags maps dotted keys to the text of the flags that were set.
	Flags map[string]string
}

// Load reads and checks the configuration. The error is a *reason.Error with code
// CONFIG_INVALID that wraps Findings.
func Load(opts LoadOptions) (*Config, Origins, error) {
	c, origins, findings := load(opts)
	if len(findings) > 0 {
		return nil, nil, reason.Errorf(reason.ConfigInvalid, "%w", findings)
	}
	return c, origins, nil
}

// LoadClient reads the configuration for a client program. Only defects of state_dir and
// client.* are errors, as in Load. Defects of other settings are returned as others; those
// settings MUST NOT be used.
func LoadClient(opts LoadOptions) (c *Config, origins Origins, others Findings, err error) {
	c, origins, findings := load(opts)
	var own Findings
	for _, f := range findings {
		// A finding without a key is about a file that cannot be read at all.
		if f.Key == "" || f.Key == "state_dir" || f.Key == "client" || strings.HasPrefix(f.Key, "client.") {
			own = append(own, f)
		} else {
			others = append(others, f)
		}
	}
	if len(own) > 0 {
		return nil, nil, nil, reason.Errorf(reason.ConfigInvalid, "%w", own)
	}
	return c, origins, others, nil
}

// Check returns all findings about the configuration that Load would read. It includes unusable
// API keys and secrets, which Load does not check.
func Check(opts LoadOptions) Findings {
	c, origins, findings := load(opts)
	return append(findings, keyFiles(c, origins)...)
}

// Path returns the file that Load reads, and whether it exists.
func Path(opts LoadOptions) (path string, exists bool) {
	path, _ = opts.file()
	if path == "" {
		return "", false
	}
	_, err := os.Stat(path)
	return path, err == nil
}

func load(opts LoadOptions) (*Config, Origins, Findings) {
	m := machineOf(opts.env())
	c := Default()
	keys := keysOf(c)
	origins := make(Origins, len(keys))
	for _, k := range keys {
		origins[k.name] = Origin{Source: SourceDefault}
	}

	path, findings := readFile(opts, c, origins)
	findings = append(findings, applyEnv(opts.env(), keys, origins)...)
	findings = append(findings, unknownVariables(opts.environ(), opts.env(), keys)...)
	findings = append(findings, applyFlags(opts.Flags, keys, origins)...)
	m.fill(c, path, origins)
	fillModels(c, origins)
	fillSecrets(c, origins)
	fillIssuers(c, origins)
	fillNotify(c)
	m.expand(c, keys)
	c.oldWords()
	if path != "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			findings = append(findings, Finding{Message: "the configuration file cannot be placed: " + err.Error(), Remedy: "name it by an absolute path"})
		}
		c.Source = abs
	}
	findings = append(findings, check(c, origins)...)
	return c, origins, findings
}

func (o LoadOptions) env() func(string) string {
	if o.Env != nil {
		return o.Env
	}
	return os.Getenv
}

func (o LoadOptions) environ() []string {
	switch {
	case o.Environ != nil:
		return o.Environ()
	case o.Env == nil:
		return os.Environ()
	}
	return nil
}

// file returns the path to read. named is true if the path was specified, so that its absence
// is an error.
func (o LoadOptions) file() (path string, named bool) {
	if o.Path != "" {
		return o.Path, true
	}
	if path := o.env()(configVariable); path != "" {
		return path, true
	}
	return machineOf(o.env()).locate(), false
}

// readFile applies the file and returns its path, even if the file does not exist.
func readFile(opts LoadOptions, c *Config, origins Origins) (string, Findings) {
	path, named := opts.file()
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return path, nil
	case err != nil:
		return path, Findings{{
			Origin:  Origin{Source: SourceFile, Name: path, Line: 1},
			Message: "cannot be read: " + plain(err),
			Remedy:  "name a file that exists and is readable with --config or PALYRA_CONFIG",
		}}
	}
	return path, applyFile(path, text, c, origins)
}

// plain returns the text of an error without the path that an fs error adds.
func plain(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

func applyEnv(env func(string) string, keys []key, origins Origins) Findings {
	var findings Findings
	for _, k := range keys {
		if k.env == "" {
			continue
		}
		text := env(k.env)
		if text == "" {
			continue
		}
		origin := Origin{Source: SourceEnv, Name: k.env}
		if err := setText(k.value, text); err != nil {
			findings = append(findings, Finding{Key: k.name, Origin: origin, Message: err.Error()})
			continue
		}
		origins[k.name] = origin
	}
	return findings
}

const (
	// variablePrefix is the prefix of all variables of Palyra.
	variablePrefix = "PALYRA_"
	// configVariable names the file; it is not a setting in the file.
	configVariable = variablePrefix + "CONFIG"
)

// otherVariables are the other variables of Palyra. The programs that agents start read them:
// `palyra mcp serve` and the hooks.
var otherVariables = []string{variablePrefix + "TOKEN", variablePrefix + "HOOK_TOKEN", variablePrefix + "HOOK_SOCKET"}

// unknownVariables finds variables with Palyra's prefix that have no effect, because an
// operator could rely on a misspelt setting.
func unknownVariables(environ []string, env func(string) string, keys []key) Findings {
	known := append([]string{configVariable}, otherVariables...)
	for _, k := range keys {
		if k.env != "" {
			known = append(known, k.env)
		}
	}
	var findings Findings
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) || env(name) == "" {
			continue
		}
		f := Finding{Origin: Origin{Source: SourceEnv, Name: name}, Message: "the variable " + name + " means nothing", Remedy: meantVariable(name, known)}
		for _, k := range keys {
			if k.env == "" && envName(k.name, "") == name {
				f.Message, f.Remedy = "the variable "+name+" cannot be set: "+k.name+" is a list of tables", "set it in the file"
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// meantVariable returns the remedy for an unknown variable: the most similar name, or the names
// with the same ending.
func meantVariable(name string, known []string) string {
	if near := text.Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	end := "_" + strings.TrimPrefix(name, variablePrefix)
	var ending []string
	for _, k := range known {
		if strings.HasSuffix(k, end) {
			ending = append(ending, k)
		}
	}
	if len(ending) > 0 {
		return "did you mean " + strings.Join(ending, " or ") + "?"
	}
	return "unset it; docs/reference/configuration.md has the keys, and PALYRA_ with a key in upper case is its variable"
}

func applyFlags(flags map[string]string, keys []key, origins Origins) Findings {
	var findings Findings
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		origin := Origin{Source: SourceFlag, Name: FlagName(name)}
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if i < 0 {
			findings = append(findings, Finding{Key: name, Origin: origin, Message: "does not exist", Remedy: suggestion(name, Keys())})
			continue
		}
		if err := setText(keys[i].value, flags[name]); err != nil {
			findings = append(findings, Finding{Key: name, Origin: origin, Message: err.Error()})
			continue
		}
		origins[name] = origin
	}
	return findings
}

// machine holds the directories for files according to the environment.
type machine struct {
	home        string
	configHome  string
	stateHome   string
	root        bool
	systemFile  string
	systemState string
}

func machineOf(env func(string) string) machine {
	m := machine{
		home:        env("HOME"),
		configHome:  env("XDG_CONFIG_HOME"),
		stateHome:   env("XDG_STATE_HOME"),
		root:        os.Geteuid() == 0,
		systemFile:  "/etc/palyra/palyra.toml",
		systemState: "/var/lib/palyra",
	}
	if m.home == "" {
		m.home = env("USERPROFILE")
	}
	// The XDG specification requires that relative paths are ignored.
	if !filepath.IsAbs(m.configHome) {
		m.configHome = m.under(".config")
	}
	if !filepath.IsAbs(m.stateHome) {
		m.stateHome = m.under(".local", "state")
	}
	return m
}

func (m machine) under(parts ...string) string {
	if m.home == "" {
		return ""
	}
	return filepath.Join(append([]string{m.home}, parts...)...)
}

// locate returns the default file: the user's file, or for root the system's file if the user's
// file does not exist. It returns "" if no location is known.
func (m machine) locate() string {
	user := ""
	if m.configHome != "" {
		user = filepath.Join(m.configHome, "palyra", "palyra.toml")
	}
	if m.root && (user == "" || !exists(user)) && exists(m.systemFile) {
		return m.systemFile
	}
	return user
}

// fill sets the paths that were not configured.
func (m machine) fill(c *Config, path string, origins Origins) {
	if c.StateDir == "" && origins["state_dir"].Source == SourceDefault {
		switch {
		case m.stateHome != "":
			c.StateDir = filepath.Join(m.stateHome, "palyra")
		case m.root:
			c.StateDir = m.systemState
		}
	}
	if c.Policy.Dir == "" && origins["policy.dir"].Source == SourceDefault && path != "" {
		// The directory need not exist yet: palyrad loads it when it appears.
		if abs, err := filepath.Abs(filepath.Join(filepath.Dir(path), "policies")); err == nil {
			c.Policy.Dir = abs
		}
	}
}

// expand replaces "~", alone or before a slash, in every path.
func (m machine) expand(c *Config, keys []key) {
	for _, k := range keys {
		if k.path {
			k.value.SetString(m.tilde(k.value.String()))
		}
	}
	for i := range c.ProcessRunner.Toolchains {
		c.ProcessRunner.Toolchains[i] = m.tilde(c.ProcessRunner.Toolchains[i])
	}
	for i := range c.Workspaces {
		c.Workspaces[i].Path = m.tilde(c.Workspaces[i].Path)
	}
	for i := range c.Models {
		c.Models[i].APIKeyFile, c.Models[i].Script = m.tilde(c.Models[i].APIKeyFile), m.tilde(c.Models[i].Script)
	}
	for i := range c.Secrets {
		c.Secrets[i].File = m.tilde(c.Secrets[i].File)
	}
}

func (m machine) tilde(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if ok && m.home != "" && (rest == "" || rest[0] == '/') {
		return filepath.Join(m.home, rest)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// suggestion returns the remedy for an unknown name.
func suggestion(word string, names []string) string {
	if name := text.Nearest(word, names); name != "" {
		return fmt.Sprintf("did you mean %s?", name)
	}
	return "see docs/reference/configuration.md for the keys"
}
