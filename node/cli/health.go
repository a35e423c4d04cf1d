package cli

import (
	"crypto/tls"
	"errors"
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
	var live bool
	cmd := &cobra.Command{
		Use: "health", Short: "Ask the node whether it is ready, for health checks", Args: cobra.NoArgs,
		Long: `Ask /readyz at the address of the API, on this machine and with TLS where that is
in use. The status is 0 when the node takes requests, else 1: it starts, drains,
or a model is down. No key is needed. With --live it asks /healthz: the status is 0
as long as the process answers, whatever it is short of, so that who ends what
is unhealthy ends no node that another one could not replace.

The address is the one that the node of the data folder left in api.addr, where
the folder is configured or given by --data-dir, and can be read; else that of
the configuration as it is now, which need not be the one that the node was
started with. Mistakes in other keys do not matter: a node that runs goes on. A
file that is not YAML says nothing: then the folder has to be given.`,
		Example: `  corenode health
  corenode health --config /etc/corenode/corenode.yaml
  corenode health --live --data-dir /var/lib/corenode`,
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "YAML `file` of the node")
	f.BoolVar(&live, "live", false, "ask whether it is alive instead")
	f.String("listen", "", "address of the API (default the node's)")
	f.String("data-dir", "", "folder of the node's data (default the configuration's)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		from := config.Sources{File: file, Environment: os.Environ(), Flags: map[string]string{}}
		for name, key := range map[string]string{"listen": "listen", "data-dir": "data_dir"} {
			if value := f.Lookup(name).Value.String(); value != "" {
				from.Flags[key] = value
			}
		}
		said := config.LoadPartial(from)
		base, err := apiBase(said, from.Flags["listen"] != "")
		if err == nil {
			err = askHealth(base, live)
		}
		if err != nil {
			return errors.Join(err, said.Err()) // which may be why it was asked elsewhere than it is
		}
		return nil
	}
	return cmd
}

// apiBase is where the API is. What the node of the folder says counts more than what the sources say now, unless the caller
// named an address. A folder that no source names is not looked into: it may be another node's.
func apiBase(said config.Partial, named bool) (string, error) {
	cfg := said.Config
	if !named && said.Given("data_dir") && said.Known("data_dir") {
		if base, err := admin.APIOf(cfg.DataDir); err == nil {
			return base, nil
		}
	}
	if !said.Known("listen") || !said.Known("server.tls_certificate") {
		return "", errors.New("where the node listens is not known: correct the configuration, or name the node's folder with --data-dir")
	}
	scheme := "http"
	if cfg.Server.TLSCertificate != "" {
		scheme = "https"
	}
	return scheme + "://" + admin.Reachable(cfg.Listen), nil
}

// askHealth asks the node at an address of this machine whether it is ready, or alive: whom its certificate names does not
// matter, and nothing secret is said.
func askHealth(base string, live bool) error {
	path, state := "/readyz", "ready"
	if live {
		path, state = "/healthz", "alive"
	}
	h := &http.Client{Timeout: healthTimeout, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}}}
	answer, err := h.Get(base + path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the node is not %s: %s", state, answer.Status)
	}
	return nil
}
