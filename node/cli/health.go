package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/store"
)

// healthTimeout is how long a node may take to say that it is ready, or alive.
const healthTimeout = 5 * time.Second

func healthCommand() *cobra.Command {
	var file string
	var live bool
	cmd := &cobra.Command{
		Use: "health", Short: "Ask the node whether it is ready, for health checks", Args: cobra.NoArgs,
		Long: `Ask /readyz at the address of the API, on this machine and with TLS where that is
in use. The status is 0 when the node takes requests, else 1: it starts, drains,
or a model is down. No key is needed. With --live the status is 0 as long as the
process answers, whatever it is short of, so that who ends what is unhealthy ends
no node that another one could not replace: it asks /healthz of the admin listener,
whose connections are not those of clients, where the folder below tells its address,
and the API too where that is not known or has not answered in half of the time. A node that has the folder and has not said there
where it is starts or ends: that is alive, too.

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
		ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
		defer cancel()
		is := ready
		if live {
			is = alive
		}
		if err := is(ctx, said, from.Flags["listen"] != ""); err != nil {
			return errors.Join(err, said.Err()) // which may be why it was asked elsewhere than it is
		}
		return nil
	}
	return cmd
}

// ready asks the API.
func ready(ctx context.Context, said config.Partial, named bool) error {
	base, err := apiBase(said, named)
	if err != nil {
		return err
	}
	answer, err := asked(ctx, base+"/readyz")
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the node is not ready: %s", answer.Status)
	}
	return err
}

// alive asks the admin listener, and where that is not known, or has not answered in half of the time, the API too: the first answer
// of either counts. A refusal is an answer as well: clients may have all the connections that a listener takes.
func alive(ctx context.Context, said config.Partial, named bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the one that is left, when the other has answered
	answers := make(chan error, 2)
	ask := func(base string) {
		_, err := asked(ctx, base+"/healthz")
		answers <- err
	}
	pending := 0
	var unheard error
	if dir := folderOf(said, named); dir != "" {
		base, err := admin.BaseOf(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if held, _ := store.Held(dir); held {
				return nil // it starts, which may take long, or ends
			}
		}
		if unheard = err; err == nil {
			go ask(base)
			select {
			case unheard = <-answers:
				if unheard == nil {
					return nil
				}
			case <-time.After(healthTimeout / 2):
				pending++
			}
		}
	}
	if base, err := apiBase(said, named); err != nil {
		unheard = errors.Join(unheard, err)
	} else {
		go ask(base)
		pending++
	}
	for range pending {
		err := <-answers
		if err == nil {
			return nil
		}
		unheard = errors.Join(unheard, err)
	}
	return unheard
}

// folderOf is the data folder of the node, or "" where it is not known or the caller named an address. A folder that no source
// names is not looked into: it may be another node's.
func folderOf(said config.Partial, named bool) string {
	if named || !said.Given("data_dir") || !said.Known("data_dir") {
		return ""
	}
	return said.Config.DataDir
}

// apiBase is where the API is. What the node of the folder says counts more than what the sources say now.
func apiBase(said config.Partial, named bool) (string, error) {
	if dir := folderOf(said, named); dir != "" {
		if base, err := admin.APIOf(dir); err == nil {
			return base, nil
		}
	}
	if !said.Known("listen") || !said.Known("server.tls_certificate") {
		return "", errors.New("where the node listens is not known: correct the configuration, or name the node's folder with --data-dir")
	}
	scheme := "http"
	if said.Config.Server.TLSCertificate != "" {
		scheme = "https"
	}
	return scheme + "://" + admin.Reachable(said.Config.Listen), nil
}

// asked asks the node at an address of this machine: whom its certificate names does not matter, and nothing secret is said. Of the
// answer the body is closed.
func asked(ctx context.Context, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	h := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}}}
	answer, err := h.Do(request)
	if err != nil {
		return nil, err
	}
	return answer, answer.Body.Close()
}
