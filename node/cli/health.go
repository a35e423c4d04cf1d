package cli

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/config"
)

// healthTimeout is how long a node may take to say that it is ready.
const healthTimeout = 5 * time.Second

func healthCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "health", Short: "Ask the node whether it is ready, for health checks", Args: cobra.NoArgs,
		Long: `Ask /readyz at the configured address of the API, on this machine and with TLS where
that is configured. The status is 0 when the node takes requests, else 1: it
starts, drains, or a model is down. No key is needed.`,
		Example: `  corenode health
  corenode health --config /etc/corenode/corenode.yaml`,
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "YAML `file` of the node")
	listen := f.String("listen", "", "address of the API (default the configuration's)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		from := config.Sources{File: file, Environment: os.Environ(), Flags: map[string]string{}}
		if *listen != "" {
			from.Flags["listen"] = *listen
		}
		cfg, err := config.Load(from)
		if err != nil {
			return err
		}
		return askHealth(cfg)
	}
	return cmd
}

// askHealth asks the node of a configuration, on this machine: whom its certificate names does not
// matter, and nothing secret is said.
func askHealth(cfg *config.Config) error {
	scheme := "http"
	if cfg.Server.TLSCertificate != "" {
		scheme = "https"
	}
	h := &http.Client{Timeout: healthTimeout, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}}}
	answer, err := h.Get(scheme + "://" + admin.Reachable(cfg.Listen) + "/readyz")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the node is not ready: %s", answer.Status)
	}
	return nil
}
