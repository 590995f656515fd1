package takeover

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/files"
	"palyra/internal/core/lazyregexp"
)

// elsewhere returns why a command line cannot be moved. Its command may start an unnamed
// program, or a server outside of the sandbox. It returns "" if the command line can be moved.
func elsewhere(argv []string) string {
	program := programOf(argv[0])
	options, rest := front(program, argv[1:])
	first := ""
	if len(rest) > 0 {
		first = rest[0]
	}
	switch {
	case slices.Contains([]string{"npm", "pnpm", "yarn", "bun", "uv"}, program) && slices.Contains([]string{"exec", "x", "dlx", "run", "start", "tool", "create"}, first):
		more, remedy := "", "name the installed program itself"
		if dir := directoryOf(slices.Concat(options, rest[1:])); dir != "" {
			more = " and does not have the directory " + dir
		}
		if program == "uv" {
			remedy = "name the interpreter of the installed environment, such as .venv/bin/python, and add it with --workspace"
		}
		return program + " " + first + " may fetch the program that it starts, and the sandbox is offline" + more + ": " + remedy
	case slices.Contains([]string{"docker", "podman", "nerdctl", "wsl", "ssh"}, program):
		return program + " starts the server outside of any sandbox of the gateway"
	case slices.Contains([]string{"sh", "bash", "zsh", "dash", "fish", "cmd", "powershell", "pwsh", "env"}, program):
		return program + " may start anything: name the program itself"
	}
	return ""
}

var varies = lazyregexp.New(`\$\{|\$[A-Z_]|%[A-Z_]+%`)

// plain returns a name in lower case, with '-' for all characters except letters, digits and those
// in more.
func plain(name, more string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune(more, r) {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(name, "-_")
}

// nameFor returns the name of a server at the gateway, or "".
func nameFor(name string) string {
	name = plain(name, "_-")
	if name == "" || name[0] < 'a' || name[0] > 'z' || len(name) > 32 {
		return ""
	}
	return name
}

// judge determines the action for an entry.
func judge(agent files.Agent, name string, e entry, t *Taker) Server {
	s := Server{Agent: string(agent), Entry: name, Name: nameFor(name)}
	own := strings.TrimSuffix(filepath.Base(e.Command), ".exe") == "palyra" || name == "palyra"
	switch {
	case own:
		s.Why = "it is Palyra's own"
	case s.Name == "":
		s.Why = "the gateway has no such name: rename it there to a-z, 0-9, '_' and '-', beginning with a letter"
	case e.Disabled || e.Enabled != nil && !*e.Enabled:
		s.Why = "it is switched off"
	case e.Command == "" && e.URL == "" || e.Command != "" && e.URL != "":
		s.Why = "it is neither a command nor a URL"
	case e.URL != "":
		s.Why = s.remote(e)
	default:
		s.Why = s.program(e, t.Hosts[s.Name], slices.Contains(t.Inject, s.Name))
	}
	return s
}

func (s *Server) program(e entry, hosts []string, inject bool) string {
	argv, why := Words(append([]string{e.Command}, e.args()...))
	if why != "" {
		return why
	}
	f, why, fetches := Fetch(argv)
	if !fetches {
		why = elsewhere(argv)
	}
	if why != "" {
		return why
	}
	env := set(e.Env)
	texts := slices.Concat(argv, slices.Collect(maps.Values(env)))
	switch {
	case slices.ContainsFunc(texts, varies.MatchString):
		return "it uses variables that the client fills in"
	case e.Dir != "":
		return "it runs in the directory " + e.Dir + ", which no sandbox has: add it with --workspace"
	case e.EnvFile != "" || len(e.Variables) > 0:
		return "it takes variables from elsewhere: name them with their values"
	case !fetches && strings.ContainsAny(argv[0], `/\`) && !filepath.IsAbs(argv[0]):
		return "its program is named relative to a directory"
	}
	s.declared = &palyrav1.UpstreamServer{Name: s.Name, Command: argv, Hosts: hosts}
	if fetches {
		s.fetched, s.Package = &f, f.Named()
	}
	for _, variable := range sorted(env) {
		value := env[variable]
		switch {
		case !isSecret(variable, value):
			s.declared.Env = append(s.declared.Env, variable+"="+value)
		case inject:
			one := secret{Ref: ref(s.Name, variable), Env: variable, value: value}
			s.keep(one)
			s.declared.Inject = append(s.declared.Inject, one.Ref)
		case len(hosts) == 0:
			return fmt.Sprintf("its variable %s contains a secret, which the vault sends only to named hosts: name them with --host %s=HOST:PORT, or pass the value to the program with --inject %s", variable, s.Name, s.Name)
		default:
			s.keep(secret{Ref: ref(s.Name, variable), Hosts: hosts, Env: variable, value: value})
		}
	}
	for _, one := range s.secrets {
		if !inject {
			s.declared.Secrets = append(s.declared.Secrets, one.Ref)
		}
	}
	return ""
}

func (s *Server) remote(e entry) string {
	u, err := url.Parse(e.URL)
	headers := set(e.Headers)
	texts := append(slices.Collect(maps.Values(headers)), e.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "its URL is not https://host/path"
	case e.Type == "sse":
		return "it speaks the transport of 2024 (SSE), which the gateway does not"
	case e.Type != "" && !slices.Contains([]string{"http", "streamable-http", "streamableHttp"}, e.Type):
		return "it is of the type " + e.Type + ", which the gateway does not speak"
	case u.User != nil || u.Fragment != "" || slices.ContainsFunc(sorted(map[string][]string(u.Query())), secretName.MatchString):
		return "its URL holds a secret: put it into a header"
	case slices.ContainsFunc(texts, varies.MatchString) || e.TokenVariable != "" || len(e.HeaderEnv) > 0 || e.HeadersHelper != "":
		return "it uses values that the client fills in: put them into the vault, and add it with --header"
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	s.declared = &palyrav1.UpstreamServer{Name: s.Name, Url: e.URL}
	for _, name := range sorted(headers) {
		scheme, value, two := strings.Cut(headers[name], " ")
		if !two {
			scheme, value = "", scheme
		}
		if u.Scheme != "https" {
			return "its headers would travel without TLS"
		}
		one := secret{Ref: ref(s.Name, name), Hosts: []string{u.Hostname() + ":" + port}, Header: name, value: value}
		s.keep(one)
		s.declared.Headers = append(s.declared.Headers, &palyrav1.UpstreamHeader{Name: name, Scheme: scheme, Secret: one.Ref})
	}
	return ""
}

func (s *Server) keep(one secret) {
	s.secrets = append(s.secrets, one)
	s.Secrets = append(s.Secrets, one.Ref)
}

// ref returns the vault reference for a secret of a configuration.
func ref(server, name string) string {
	return "global/mcp." + server + "." + plain(name, "._-")
}
