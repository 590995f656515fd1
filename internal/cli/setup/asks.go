package setup

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/cli/command"
	"palyra/internal/core/config"
	"palyra/internal/core/statedir"
	"palyra/internal/surface/hook/client"
)

// schema is `palyra hook schema`.
func (a *hookCommands) schema() *cobra.Command {
	c := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of what an agent of your own sends and reads", Args: command.Args(0, 0),
		Long: "Print the JSON Schema of what `palyra hook generic` reads from standard input and\n" +
			"answers on standard output, regardless of -o.",
		Example: "palyra hook schema > hook.schema.json",
	}
	c.RunE = func(*cobra.Command, []string) error {
		_, err := fmt.Fprint(a.Out, client.Schema)
		return err
	}
	return c
}

// generic is `palyra hook generic`: the function of palyra-hook, for agents that start palyra.
func (a *hookCommands) generic() *cobra.Command {
	var tokenFile string
	limit := uint(client.DefaultLimit / time.Second)
	c := &cobra.Command{
		Use: "generic", Short: "Ask about a tool call, or report it, as the hook of another agent", Args: command.Args(0, 0),
		Long: "Read one message of an agent from standard input (`palyra hook schema`), ask palyrad on\n" +
			"this machine over its socket, and answer on standard output: exit code 0 if the tool may\n" +
			"run, 2 if it may not; every error is a denial. It waits for people until 5 seconds before\n" +
			"the limit.\n\n" +
			"The agent is a separate member (`palyra members add NAME --owner YOU --role agent`, then\n" +
			"`palyra members consent NAME`) with a token for this purpose only (`palyra tokens\n" +
			"create NAME --for agent:NAME --scope hook.report`), which is read from --token-file or\n" +
			"PALYRA_HOOK_TOKEN. PALYRA_HOOK_SOCKET names a socket other than the configured one.\n" +
			"`palyra-hook generic` does the same, starts faster, and reads no configuration.",
		Example: `echo '{"event":"before","session":"s1","call":"c1","tool":"shell","input":{"command":"make"},"cwd":"/src"}' | palyra hook generic --token-file token`,
	}
	c.Flags().StringVar(&tokenFile, "token-file", "", "file with the agent's token")
	c.Flags().UintVar(&limit, "limit", limit, "seconds for which the agent waits for this command")
	c.RunE = func(*cobra.Command, []string) error {
		h := &client.Hook{Agent: client.Generic, Limit: time.Duration(limit) * time.Second}
		code := 0
		if err := a.fill(h, tokenFile); err != nil {
			code = h.Deny(err, a.Out, a.Err)
		} else {
			code = h.Run(a.In, a.Out, a.Err)
		}
		if code != 0 {
			return command.Exit(code)
		}
		return nil
	}
	return c
}

// fill finds the socket and the token.
func (a *hookCommands) fill(h *client.Hook, tokenFile string) (err error) {
	if h.Socket = a.Getenv("PALYRA_HOOK_SOCKET"); h.Socket == "" {
		c, _, _, err := config.LoadClient(a.LoadOptions())
		if err != nil {
			return err
		}
		if h.Socket = c.Listen.Hooks; h.Socket == "" {
			h.Socket = statedir.Hooks(c.StateDir)
		}
	}
	h.Token = a.Getenv("PALYRA_HOOK_TOKEN")
	if tokenFile != "" {
		h.Token, err = client.ReadToken(tokenFile)
	}
	return err
}
