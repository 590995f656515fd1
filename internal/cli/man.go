package cli

import (
	mango "github.com/muesli/mango-cobra"
	"github.com/muesli/roff"
	"github.com/spf13/cobra"
)

// manual is the page palyra(1) in roff.
func manual(root *cobra.Command) (string, error) {
	page, err := mango.NewManPage(1, root)
	if err != nil {
		return "", err
	}
	return page.Build(roff.NewDocument()), nil
}
