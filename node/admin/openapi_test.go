package admin

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/extensions/capture"
	"corenode/extensions/compare"
	"corenode/node/store"
	"corenode/node/why"
	"corenode/wasm/abi"
)

// TestOpenAPIHasEveryVerb holds the document and the routes to each other, and
// the document's schemas to the fields of the Go types.
func TestOpenAPIHasEveryVerb(t *testing.T) {
	status, _, body := New(nil, nil, nil, nil, nil).Handle(t.Context(), "GET", "/openapi.json", nil, nil)
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(body, &document); err != nil || status != 200 {
		t.Fatal(status, err)
	}
	var documented, served []string
	for path, verbs := range document.Paths {
		for verb := range verbs {
			if verb != "parameters" {
				documented = append(documented, strings.ToUpper(verb)+" "+path)
			}
		}
	}
	for _, r := range routes {
		served = append(served, r.method+" "+r.path)
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %v\nserved %v", documented, served)
	}
	types := []reflect.Type{reflect.TypeFor[Account](), reflect.TypeFor[NewAccount](), reflect.TypeFor[AccountChange](),
		reflect.TypeFor[TopUp](), reflect.TypeFor[account.CounterUse](), reflect.TypeFor[abi.Counter](),
		reflect.TypeFor[NewKey](), reflect.TypeFor[KeyChange](),
		reflect.TypeFor[Key](), reflect.TypeFor[Entry](), reflect.TypeFor[Usage](), reflect.TypeFor[Status](),
		reflect.TypeFor[NewModule](), reflect.TypeFor[Share](), reflect.TypeFor[Replayed](), reflect.TypeFor[Rerated](),
		reflect.TypeFor[Backup](), reflect.TypeFor[ModelPrices](), reflect.TypeFor[TokenPrices](), reflect.TypeFor[BackedUp](),
		reflect.TypeFor[store.Verification](), reflect.TypeFor[extensions.Info](),
		reflect.TypeFor[compare.Report](), reflect.TypeFor[compare.Operation](), reflect.TypeFor[compare.Charges](),
		reflect.TypeFor[compare.Ratio](),
		reflect.TypeFor[compare.AccountCharges](), reflect.TypeFor[compare.Difference](), reflect.TypeFor[compare.Answer](),
		reflect.TypeFor[compare.Number](),
		reflect.TypeFor[compare.Line](), reflect.TypeFor[UpstreamModel](), reflect.TypeFor[Replica](), reflect.TypeFor[ReplicaURL](),
		reflect.TypeFor[StatementPage](), reflect.TypeFor[UsagePage](), reflect.TypeFor[UsageSum](), reflect.TypeFor[ExplainedCharge](),
		reflect.TypeFor[ExplainedRow](), reflect.TypeFor[Request](), reflect.TypeFor[PastRequest](), reflect.TypeFor[PastPage](),
		reflect.TypeFor[Canceled](), reflect.TypeFor[AuditRow](), reflect.TypeFor[AuditPage](), reflect.TypeFor[Reloaded](),
		reflect.TypeFor[why.Diagnosis](), reflect.TypeFor[why.Cause](),
		reflect.TypeFor[CacheLook](), reflect.TypeFor[CachedModel](), reflect.TypeFor[CachedAccount](), reflect.TypeFor[CachedPrefix](),
		reflect.TypeFor[Unshared](), reflect.TypeFor[TrailShown](), reflect.TypeFor[Setting](), reflect.TypeFor[LogLine](),
		reflect.TypeFor[LogPage](),
		reflect.TypeFor[DrainState](), reflect.TypeFor[ClusterNode](), reflect.TypeFor[ClusterNodes](), reflect.TypeFor[ClusterGrant](),
		reflect.TypeFor[ClusterGrants]()}
	schemas := map[string]reflect.Type{ // by their names in the document
		"ChargeLine": reflect.TypeFor[compare.Line](), "CaptureStatus": reflect.TypeFor[capture.Status](),
		"CaptureReport": reflect.TypeFor[capture.Report](), "CaptureOperation": reflect.TypeFor[capture.Operation](),
		"CaptureDifference": reflect.TypeFor[capture.Difference](), "NewCapture": reflect.TypeFor[NewCapture](),
		"Older": reflect.TypeFor[Older](),
	}
	for _, typ := range types {
		schemas[typ.Name()] = typ
	}
	for schema, typ := range schemas {
		var fields, properties []string
		for _, field := range reflect.VisibleFields(typ) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !field.Anonymous && name != "-" {
				fields = append(fields, name)
			}
		}
		for name := range document.Components.Schemas[schema].Properties {
			properties = append(properties, name)
		}
		slices.Sort(fields)
		slices.Sort(properties)
		if !slices.Equal(fields, properties) {
			t.Errorf("%s has fields %v, documented %v", schema, fields, properties)
		}
	}
}
