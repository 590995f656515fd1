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
			"answers on standard output, whatever -o says.",
		Example: "palyra hook schema > hook.schema.json",
	}
	c.RunE = func(*cobra.Command, []string) error {
		_, err := fmt.Fprint(a.Out, client.Schema)
		return err
	}
	return c
}

// generic is `palyra hook generic`: what palyra-hook does, for agents that start palyra.
func (a *hookCommands) generic() *cobra.Command {
	var tokenFile string
	limit := uint(client.DefaultLimit / time.Second)
	c := &cobra.Command{
		Use: "generic", Short: "Ask about a tool, or report on it, as the hook of an agent of your own", Args: command.Args(0, 0),
		Long: "Read one message of an agent from standard input (`palyra hook schema`), ask palyrad on\n" +
			"this machine by its socket, and answer on standard output: exit code 0 where the tool\n" +
			"may run, 2 where it may not, and whatever goes wrong is a denial. People who are asked\n" +
			"are waited for until 5 seconds before the limit.\n\n" +
			"The agent is a member of its own (`palyra members add NAME --owner YOU --role agent`, then\n" +
			"`palyra members consent NAME`) and shows a token that may do nothing else (`palyra tokens\n" +
			"create NAME --for agent:NAME --scope hook.report`). It is read from --token-file, or is PALYRA_HOOK_TOKEN. PALYRA_HOOK_SOCKET names another\n" +
			"socket than that of the configuration. `palyra-hook generic` does the same, starts\n" +
			"faster, and reads no configuration.",
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
