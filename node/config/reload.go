package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// reloadable are the keys that change while a node runs. All others wait for
// the next start.
var reloadable = []string{"admin.operators", "log.level", "modules.trusted_keys", "modules.denied", "server.peer_keys"}

// urlsKey ends the key of a model's servers. It is reloadable where the model has some before
// and after.
const urlsKey = ".upstream.urls"

// URLsOf is the key of a model's servers elsewhere.
func URLsOf(id string) string { return "models." + id + urlsKey }

// Reload says what a node that runs by running does when it reads next: now is
// running with the reloadable keys of next, changed the keys that differ by it,
// waits the keys of next that differ and need a restart. Neither is written to.
// Keys are in the order of the file; those of a model follow its id.
func Reload(running, next *Config) (now *Config, changed, waits []string) {
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
	for _, key := range modelsChanged(running.Models, next.Models) {
		id, urls := strings.CutSuffix(strings.TrimPrefix(key, "models."), urlsKey)
		m, to := now.Models[id], next.Models[id]
		if !urls || len(m.Upstream.URLs) == 0 || len(to.Upstream.URLs) == 0 {
			waits = append(waits, key)
			continue
		}
		m.Upstream.URLs = to.Upstream.URLs
		now.Models[id], changed = m, append(changed, key)
	}
	return now, changed, waits
}

// modelsChanged names what differs between two sets of models: the id of one
// that came or went, else its keys.
func modelsChanged(before, after map[string]Model) (keys []string) {
	ids := maps.Clone(before)
	maps.Copy(ids, after)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		key := "models." + id
		was, had := before[id]
		is, has := after[id]
		if had != has {
			keys = append(keys, key)
			continue
		}
		now := leavesUnder(key+".", reflect.ValueOf(&is).Elem())
		for i, leaf := range leavesUnder(key+".", reflect.ValueOf(&was).Elem()) {
			if !reflect.DeepEqual(leaf.value.Interface(), now[i].value.Interface()) {
				keys = append(keys, leaf.key)
			}
		}
	}
	return keys
}
