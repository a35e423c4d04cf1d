package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// reloadable are the keys that change while a node runs. All others wait for
// the next start.
var reloadable = []string{operatorsKey, "log.level", "modules.trusted_keys", "modules.denied",
	"server.cors_origins", "server.peer_keys"}

// operatorsKey has hashes of tokens, which are not shown.
const operatorsKey = "admin.operators"

// urlsKey ends the key of a model's servers. It is reloadable where the model has some before
// and after, and asks them the same way: other servers are not sent the key or the form of those before.
const urlsKey = ".upstream.urls"

// modelReloadable says of a key of a model that runs as was and is to run as is whether it can
// change while it runs. rest is the key behind the model's id.
func modelReloadable(rest string, was, is Model) bool {
	switch {
	case rest == urlsKey:
		return len(was.Upstream.URLs) > 0 && len(is.Upstream.URLs) > 0 && reflect.DeepEqual(asking(was.Upstream), asking(is.Upstream))
	case rest == ".upstream.sampling":
		return was.Engine == EngineUpstream && was.Upstream.Flavor == is.Upstream.Flavor
	case strings.HasPrefix(rest, ".sampling."):
		return was.Engine != EngineUpstream
	}
	return strings.HasPrefix(rest, ".prices.")
}

// asking is how servers elsewhere are asked and believed: u without which servers they are, what
// sampling fields they know, and how many requests they have for how long.
func asking(u Upstream) Upstream {
	u.URLs, u.Sampling = nil, nil
	u.ConnectionsMax, u.FirstTokenTimeout, u.StallTimeout = 0, 0, 0
	return u
}

// PricesChanged says whether prices are among the keys that a reload changed.
func PricesChanged(changed []string) bool {
	return slices.ContainsFunc(changed, isPrice)
}

func isPrice(key string) bool {
	return strings.Contains(key, ".prices.")
}

// URLsOf is the key of a model's servers elsewhere.
func URLsOf(id string) string { return "models." + id + urlsKey }

// KeyFileOf is the key of the file with what they ask for. It is said to have changed when what is in the file has.
func KeyFileOf(id string) string { return "models." + id + ".upstream.key_file" }

// ServersWait says whether which servers answer a model waits for a restart: what is in their key's file is for
// those that wait, then.
func ServersWait(id string, waits []string) bool {
	return slices.Contains(waits, URLsOf(id)) || slices.Contains(waits, "models."+id+".upstream.dns")
}

// Reload says what a node that runs by running does when it reads next: now is
// running with the reloadable keys of next, changed the keys that differ by it,
// waits the keys of next that differ and need a restart. Neither is written to.
// Keys are in the order of the file; those of a model follow its id. Of the models whose ids are in stay all waits.
func Reload(running, next *Config, stay ...string) (now *Config, changed, waits []string) {
	changed, waits = []string{}, []string{} // of which a log line has a list also when they are none
	copied := *running
	now = &copied
	now.Models = maps.Clone(running.Models)
	after := leavesOf(next)
	for i, leaf := range leavesOf(now) {
		switch value := after[i].value; {
		case reflect.DeepEqual(leaf.value.Interface(), value.Interface()):
		case slices.Contains(reloadable, leaf.key):
			leaf.value.Set(value)
			changed = append(changed, leaf.key)
		default:
			waits = append(waits, leaf.key)
		}
	}
	ids := maps.Clone(running.Models)
	maps.Copy(ids, next.Models)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		was, had := running.Models[id]
		is, has := next.Models[id]
		if had != has {
			waits = append(waits, "models."+id)
			continue
		}
		m, done, later := reloadModel("models."+id, was, is, slices.Contains(stay, id))
		now.Models[id] = m
		changed, waits = append(changed, done...), append(waits, later...)
	}
	return now, changed, waits
}

// reloadModel is Reload for a model that goes on; all of it waits where it is to stay.
func reloadModel(key string, was, is Model, stay bool) (now Model, changed, waits []string) {
	now = was
	after := leavesUnder(key+".", reflect.ValueOf(&is).Elem())
	for i, leaf := range leavesUnder(key+".", reflect.ValueOf(&now).Elem()) {
		switch value := after[i].value; {
		case reflect.DeepEqual(leaf.value.Interface(), value.Interface()):
		case !stay && modelReloadable(strings.TrimPrefix(leaf.key, key), was, is):
			leaf.value.Set(value)
			changed = append(changed, leaf.key)
		default:
			waits = append(waits, leaf.key)
		}
	}
	return now, changed, waits
}
