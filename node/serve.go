package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"corenode/node/admin"
	"corenode/node/cli"
	"corenode/node/config"
	"corenode/node/console"
)

// serve runs a node until a signal ends it.
func serve(from config.Sources, out, logTo io.Writer) error {
	signals := watchSignals() // before the configuration is read: a hangup then is a reload already
	defer signals.close()
	cfg, origins, err := config.Load(from)
	if err != nil {
		return err
	}
	if err := cli.WantServedFolder(cfg.DataDir, config.OverruledFolder(from, origins)); err != nil {
		return err
	}
	lines := newLogWriter(&utf8Writer{to: logTo})
	defer lines.Close()
	ring := newLogRing(lines)
	log, level, err := newLogger(cfg, ring)
	if err != nil {
		return err
	}
	defer takeLibraries(log)()
	manager, err := findSupervisor()
	if err != nil {
		return err
	}
	defer manager.close()
	reloads := newReloader(from, cfg, level, log)
	reloads.manager, reloads.origins = manager, origins
	n, err := openUnlessStopped(signals, reloads, cfg, log)
	if n == nil {
		return err
	}
	reloads.node, n.reloads, n.logs = n, reloads, ring
	n.serving.Go(func() { reloads.run(n.stopped) })
	n.begin()
	n.greet(out)
	manager.say("READY=1")
	n.serving.Go(func() { manager.live(func() { n.tree.Inspect() }, n.stopped) })
	err = n.waitForDrain(signals, reloads)
	manager.say("STOPPING=1\n" + extension(stopMax(cfg)))
	go signals.endDrain(log, reloads.ask, lines)
	if err == nil {
		err = n.leave()
	}
	return errors.Join(err, n.stop())
}

// stopMax is how long a stop may take: the delay, the drain, as long again where kept caches are written, and what closing takes.
func stopMax(cfg *config.Config) time.Duration {
	drain := cfg.Limits.DrainTimeout
	if cfg.Cache.Keep > 0 {
		drain *= 2
	}
	return cfg.Limits.DrainDelay + drain + 30*time.Second
}

// waitForDrain waits until a signal or an operator asks the node to drain, or it cannot go on. signals.first says which signal it was.
func (n *node) waitForDrain(signals *signals, reloads *reloader) error {
	asked := func(how, what string) error {
		n.log.Info("draining", how, what, "delay", n.cfg.Limits.DrainDelay.String(), "timeout", n.cfg.Limits.DrainTimeout.String())
		return nil
	}
	for {
		select {
		case got := <-signals.stop:
			signals.first = stopSignal{got, time.Now()}
			return asked("signal", got.String())
		case got := <-signals.hangup:
			if signals.hangupEnds {
				signals.first = stopSignal{got, time.Now()}
				return asked("signal", got.String())
			}
			reloads.ask()
		case <-n.drainAsked:
			return asked("asked", "admin API")
		case err := <-n.failed:
			return n.cannotGoOn(err)
		}
	}
}

func (n *node) cannotGoOn(err error) error {
	n.log.Error("the node cannot go on", "error", err.Error())
	return err
}

// leave tells for limits.drain_delay whoever sends requests here, nodes of the same database too, to send them elsewhere. It serves
// what comes meanwhile.
func (n *node) leave() error {
	l := n.cfg.Limits
	if l.DrainDelay == 0 {
		return nil
	}
	n.drains(l.DrainDelay + l.DrainTimeout)
	n.server.Leave()
	select {
	case <-time.After(l.DrainDelay):
		return nil
	case err := <-n.failed:
		return n.cannotGoOn(err)
	}
}

// openUnlessStopped opens a node; a signal gives it up, without an error. What is half
// done then is left as by a kill, which every step of a start survives: to wait
// for its end might take minutes, of packing weights or of replaying rows. A
// reload that is asked for meanwhile is for the node that serves.
func openUnlessStopped(signals *signals, reloads *reloader, cfg *config.Config, log *slog.Logger) (*node, error) {
	type opened struct {
		node *node
		err  error
	}
	defer reloads.manager.extend(extendEvery)()
	done := make(chan opened, 1)
	go func() {
		n, err := open(cfg, log, compileModules())
		done <- opened{n, err}
	}()
	for {
		var stopped os.Signal
		select {
		case o := <-done:
			return o.node, o.err
		case stopped = <-signals.stop:
		case stopped = <-signals.hangup:
			if !signals.hangupEnds {
				log.Info("the configuration will be read again when the node serves")
				reloads.ask()
				continue
			}
		}
		log.Info("stopped while starting", "signal", stopped.String())
		return nil, nil
	}
}

// greet prints what a newcomer needs: where, with what, and a line to paste. Its URL is quoted: shells take the
// brackets of an address for a pattern.
func (n *node) greet(out io.Writer) {
	base, adminScheme := n.base(admin.Reachable(n.public.Addr().String())), "http://"
	if n.certificates.admin != nil {
		adminScheme = "https://"
	}
	adminBase := adminScheme + admin.Reachable(n.admin.Addr().String())
	key, where := "$API_KEY", "the key of an account (corenode key create)"
	if n.keyFile != "" {
		file := n.keyFile
		if absolute, err := filepath.Abs(file); err == nil {
			file = absolute // the line may be pasted anywhere
		}
		key, where = "$(cat "+console.ShellQuoted(file)+")", "in "+n.keyFile
	}
	model := n.catalog.infos[len(n.catalog.infos)-1].ID
	fmt.Fprintf(out, `corenode %s is ready

  base URL   %s
  API key    %s
  admin API  %s, token in %s
  console    %s/console/

Try it:

  curl -N '%s/v1/messages' -H "x-api-key: %s" -H "content-type: application/json" -d '{"model":"%s","max_tokens":64,"stream":true,"messages":[{"role":"user","content":"Say hello."}]}'

`, version, base, where, adminBase, filepath.Join(n.cfg.DataDir, admin.TokenName), adminBase, base, key, model)
}
