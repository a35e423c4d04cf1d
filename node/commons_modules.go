package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/node/admin"
	"corenode/node/store"
)

// loadedMax bounds how long a change of what serves waits until every live node has the module in
// memory, followedMax how long until all follow. askEvery is how often their reports are read meanwhile.
const (
	loadedMax   = time.Minute
	followedMax = 10 * time.Second
	askEvery    = 100 * time.Millisecond
)

// clusterModules are the modules of a cluster as operators change them: a file goes to the store;
// what serves changes once every live node has it in memory, by one row that all follow.
type clusterModules struct {
	*extensions.Host
	c *commons
	// caller ends when who asked for a change has left: nobody waits for the other nodes any more.
	caller context.Context
}

// Within implements admin.Waiting.
func (m clusterModules) Within(caller context.Context) admin.Modules {
	m.caller = caller
	return m
}

// verbs are the modules as the admin API changes them.
func (n *node) verbs() admin.Modules {
	if n.commons == nil {
		return n.modules
	}
	return clusterModules{n.modules, n.commons, context.Background()}
}

// Load implements admin.Modules.
func (m clusterModules) Load(ctx context.Context, wasm, signature, config []byte) (extensions.Info, error) {
	config, err := guest.Config(config)
	if err != nil {
		return extensions.Info{}, err
	}
	info, err := m.Host.Load(ctx, wasm, signature, config)
	if err != nil || info.Shipped {
		return info, err
	}
	if signature, err = m.Signature(info.Digest); err == nil { // which of a module in memory need not be the one that came
		err = m.c.store.PutModule(store.ModuleFile{Digest: info.Digest, Wasm: wasm, Signature: signature, Config: config}, true)
		m.c.wake()
	}
	return info, err
}

// Reconfigure implements admin.Modules. What serves keeps its configuration: a node that starts
// reads the files before it knows what is to become of them.
func (m clusterModules) Reconfigure(ctx context.Context, wasm, signature, config []byte) (extensions.Info, error) {
	info, err := m.Load(ctx, wasm, signature, config)
	if errors.Is(err, extensions.ErrInUse) {
		err = &admin.Error{Kind: admin.KindConflict, Message: "in a cluster a module that serves keeps its configuration: " +
			"raise the version in its manifest, load it and activate it"}
	}
	return info, err
}

// Activate implements admin.Modules.
func (m clusterModules) Activate(ref string) (extensions.Info, error) {
	return m.change(ref, func() (extensions.Info, error) { return m.Host.Activate(ref) })
}

// Enable implements admin.Modules. Every node has what ships.
func (m clusterModules) Enable(name string) (extensions.Info, error) {
	return m.followed(m.Host.Enable(name))
}

// Disable implements admin.Modules.
func (m clusterModules) Disable(name string) (extensions.Info, error) {
	return m.followed(m.Host.Disable(name))
}

// Canary implements admin.Modules.
func (m clusterModules) Canary(ref string, percent int) (extensions.Info, error) {
	if percent == 0 {
		return m.followed(m.Host.Canary(ref, 0))
	}
	return m.change(ref, func() (extensions.Info, error) { return m.Host.Canary(ref, percent) })
}

// Shadow implements admin.Modules.
func (m clusterModules) Shadow(ref string, percent int) (extensions.Info, error) {
	if percent == 0 {
		return m.followed(m.Host.Shadow(ref, 0))
	}
	return m.change(ref, func() (extensions.Info, error) { return m.Host.Shadow(ref, percent) })
}

// Rollback implements admin.Modules.
func (m clusterModules) Rollback(s extensions.Slot) (extensions.Info, error) {
	back := func() (extensions.Info, error) { return m.Host.Rollback(s) }
	if goal := m.Goal(s); goal != "" {
		return m.change(goal, back)
	}
	return m.followed(back())
}

// Remove implements admin.Modules.
func (m clusterModules) Remove(ref string) error {
	_, err := m.followed(extensions.Info{}, m.Host.Remove(ref))
	return err
}

// change makes a change of what serves when all live nodes have a module.
func (m clusterModules) change(ref string, do func() (extensions.Info, error)) (extensions.Info, error) {
	info, err := m.Module(ref)
	if err != nil {
		return info, err
	}
	if !info.Shipped {
		if err := m.c.awaitLoaded(m.caller, info.Digest, info.ConfigSHA256); err != nil {
			return extensions.Info{}, err
		}
	}
	return m.followed(do())
}

// followed waits for the other nodes after a change, and notes which of them were late.
func (m clusterModules) followed(info extensions.Info, err error) (extensions.Info, error) {
	m.c.wake() // to tell them, or to follow who was quicker
	if err != nil {
		return info, err
	}
	if late := m.c.awaitFollowed(m.caller, m.Number(), time.Now().Add(followedMax)); len(late) > 0 {
		info.Note = strings.TrimPrefix(info.Note+"; "+admin.LateNote+strings.Join(late, ", "), "; ")
	}
	return info, nil
}

// awaitLoaded waits until every live node says that it has a module in memory, with a configuration.
func (c *commons) awaitLoaded(caller context.Context, digest, config string) error {
	asked := int64(0) // the number of the module files when all were asked
	for until := time.Now().Add(loadedMax); ; pause(caller) {
		reports, err := c.store.Reports()
		if err != nil {
			return err
		}
		lacking, why := lacking(reports, digest, config, asked)
		switch {
		case len(lacking) == 0:
			return nil
		case caller.Err() != nil:
			return &admin.Error{Kind: admin.KindConflict, Message: "nothing was changed: who asked has left, or the node is stopping"}
		case why != "":
			return &admin.Error{Kind: admin.KindConflict, Message: "nothing was changed: " + why}
		case time.Now().After(until):
			return &admin.Error{Kind: admin.KindConflict, Message: fmt.Sprintf(
				"nothing was changed: after %v these nodes do not have the module in memory: %s", loadedMax, strings.Join(lacking, ", "))}
		case asked == 0:
			if asked, err = c.store.AskModule(digest); err != nil {
				return err
			}
			c.wake()
		}
	}
}

// lacking are the nodes that do not have a module in memory. why says of one that it cannot, since
// all were asked; asked is 0 before.
func lacking(reports map[string]store.NodeReport, digest, config string, asked int64) (nodes []string, why string) {
	for id, r := range reports {
		if has, ok := r.Loaded[digest]; ok && has == config {
			continue
		}
		nodes = append(nodes, id)
		if reason, failed := r.Failed[digest]; failed && asked > 0 && r.Modules >= asked {
			why = fmt.Sprintf("the node %s cannot load the module: %s", id, reason)
		}
	}
	slices.Sort(nodes)
	return nodes, why
}

// awaitFollowed waits until every live node follows a rollout, and names those that do not in time, or when
// who asked left.
func (c *commons) awaitFollowed(caller context.Context, number int64, until time.Time) (late []string) {
	late = []string{"the database does not say which"}
	for ; ; pause(caller) {
		reports, err := c.store.Reports()
		if err == nil {
			if late = behind(reports, number); len(late) == 0 {
				return nil
			}
		}
		if caller.Err() != nil || time.Now().After(until) {
			return late
		}
	}
}

// behind are the nodes that follow an earlier rollout.
func behind(reports map[string]store.NodeReport, number int64) (nodes []string) {
	for id, r := range reports {
		if r.Rollout < number {
			nodes = append(nodes, id)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// pause is between two looks at what other nodes report, or shorter when the caller leaves.
func pause(caller context.Context) {
	select {
	case <-time.After(askEvery):
	case <-caller.Done():
	}
}
