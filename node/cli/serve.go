package cli

import (
	"os"

	"github.com/spf13/cobra"

	"corenode/node/config"
)

func serveCommand(serve Serve) *cobra.Command {
	var file string
	var models []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Start a node",
		Long: `Start a node and serve until SIGTERM or SIGINT, which drain it: after
limits.drain_delay new requests are refused, running streams finish, then the
process ends with status 0. During the start they end it at once, with the same
status. SIGHUP does the same where a terminal is the standard input; elsewhere
the node reads its configuration again.

With no flag it listens on 127.0.0.1:8080, keeps its data in ./data and serves
the models in the binary. The first start makes an account "default" and writes
its key to data/default.key.`,
		Example: `  corenode serve
  corenode serve --listen 0.0.0.0:8080 --data-dir /var/lib/corenode
  corenode serve --model qwen=/models/qwen3-0.6b-q8_0.gguf
  corenode serve --config corenode.yaml`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "YAML `file`; corenode serve --print-config shows every key with its default")
	f.String("listen", "", "address of the API (default 127.0.0.1:8080)")
	f.String("admin-listen", "", "address of the admin API and /metrics (default a free port on 127.0.0.1)")
	f.String("data-dir", "", "folder of the node's data (default ./data)")
	f.StringArrayVar(&models, "model", nil, "ID=PATH of a GGUF file or a folder of safetensors; may be given again")
	show := f.Bool("print-config", false, "print a config file that documents every key, and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *show {
			_, err := cmd.OutOrStdout().Write(config.Reference())
			return err
		}
		flags := map[string]string{}
		for name, key := range map[string]string{"listen": "listen", "admin-listen": "admin.listen", "data-dir": "data_dir"} {
			if flag := f.Lookup(name); flag.Changed {
				flags[key] = flag.Value.String()
			}
		}
		return serve(config.Sources{File: file, Environment: os.Environ(), Flags: flags, Models: models}, cmd.OutOrStdout(), os.Stderr)
	}
	return cmd
}
