package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/internal/codec"
)

func (a *app) keysCmd() *cobra.Command {
	return group("keys", "Manage the key file of the payload codec",
		"Payloads and failures are stored at Temporal encrypted with the current key of a key\n"+
			"file, which workers and this program share. Old keys stay in the file to decrypt what\n"+
			"they encrypted. Running workers follow a change of the file within a second.\n\n"+
			"Where several machines have copies of the file, run keys add, distribute the file,\n"+
			"then keys activate and distribute again; keys rotate does both at once.",
		a.keysGenerateCmd(), a.keysListCmd(), a.keysRotateCmd(), a.keysAddCmd(), a.keysActivateCmd(), a.keysRetireCmd())
}

// keyPath is the key file to manage; without one anywhere, the one that
// tollgate-dev would use here.
func (a *app) keyPath() string {
	if f := a.keyFile(); f != "" {
		return f
	}
	return filepath.Join(a.env.Dir, stateDir, devKeyFile)
}

// keyError is a failure with a key file. They name the file.
func keyError(err error) error {
	var hint string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrExist):
		hint = "add a key to it with: tollgate keys rotate"
	case errors.Is(err, os.ErrNotExist):
		hint = "make one with tollgate keys generate, or name another with --codec-key-file or " + envKeyFile
	}
	return &Error{Code: ExitUsage, Msg: err.Error(), Hint: hint, Err: err}
}

func (a *app) keysGenerateCmd() *cobra.Command {
	return &cobra.Command{
		Use: "generate", Short: "Make a key file with a new key",
		Long:    "Makes a key file, readable by its owner only. An existing file is left alone.",
		Example: "  tollgate keys generate --codec-key-file /etc/tollgate/keys.json",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			id, err := codec.Create(a.keyPath())
			if err != nil {
				return keyError(err)
			}
			a.say("%s: made with key %s", a.keyPath(), id)
			return a.printKeys(false)
		},
	}
}

func (a *app) keysListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the ids of the keys",
		Example: "  tollgate keys list",
		Args:    exactly(),
		RunE:    func(*cobra.Command, []string) error { return a.printKeys(true) },
	}
}

func (a *app) keysRotateCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Short: "Add a key and encrypt with it from now on",
		Example: "  tollgate keys rotate",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			id, err := codec.Rotate(a.keyPath())
			if err != nil {
				return keyError(err)
			}
			a.say("%s: key %s is current, the others still decrypt", a.keyPath(), id)
			return a.printKeys(false)
		},
	}
}

func (a *app) keysAddCmd() *cobra.Command {
	return &cobra.Command{
		Use: "add", Short: "Add a key that decrypts and does not encrypt yet",
		Example: "  tollgate keys add",
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			id, err := codec.Add(a.keyPath())
			if err != nil {
				return keyError(err)
			}
			a.say("%s: key %s added; distribute the file, then run: tollgate keys activate %s", a.keyPath(), id, id)
			return a.printKeys(false)
		},
	}
}

func (a *app) keysActivateCmd() *cobra.Command {
	return &cobra.Command{
		Use: "activate ID", Short: "Encrypt with a key of the file from now on",
		Example: "  tollgate keys activate k20260102-0a1b2c",
		Args:    exactly("ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := codec.Activate(a.keyPath(), args[0]); err != nil {
				return keyError(err)
			}
			a.say("%s: key %s is current, the others still decrypt", a.keyPath(), args[0])
			return a.printKeys(false)
		},
	}
}

func (a *app) keysRetireCmd() *cobra.Command {
	var sure bool
	c := &cobra.Command{
		Use: "retire ID", Short: "Remove an old key for good",
		Long: "Removes a key that is not the current one. What it encrypted can never be decrypted\n" +
			"again: retire a key when no workflow encrypted with it runs or is retained.",
		Example: "  tollgate keys retire k20260102-0a1b2c --yes",
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !sure {
				return usage("keys retire: what %s encrypted can never be decrypted again: confirm with --yes", args[0])
			}
			if err := codec.Retire(a.keyPath(), args[0]); err != nil {
				return keyError(err)
			}
			a.say("%s: key %s is gone", a.keyPath(), args[0])
			return a.printKeys(false)
		},
	}
	c.Flags().BoolVar(&sure, "yes", false, "yes, remove it")
	return c
}

// printKeys shows the ids in a key file. After a change (always is false) only a
// document is printed, for scripts.
func (a *app) printKeys(always bool) error {
	if !always && a.output.value != formatJSON && a.output.value != formatYAML {
		return nil
	}
	f, err := codec.Open(a.keyPath(), nil)
	if err != nil {
		return keyError(err)
	}
	info := struct {
		File string `json:"file"`
		codec.KeyInfo
	}{a.keyPath(), f.Info()}
	return a.print(info, func(w io.Writer, _ bool) error {
		fmt.Fprintf(w, "%s\n", info.File)
		var t table
		t.head("KEY", "USE")
		for _, id := range info.IDs {
			use := "decrypts"
			if id == info.Current {
				use = "encrypts and decrypts"
			}
			t.row(id, use)
		}
		return t.write(w)
	})
}
