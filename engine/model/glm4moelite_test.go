package model

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"corenode/engine/modelfile/gguftest"
)

// TestReleasedLite: GLM 4.7 Flash's config with the keys that it is released with says what that of transformers does, and the
// prediction block behind its layers is left out. A list of layers that is not the first without experts is refused.
func TestReleasedLite(t *testing.T) {
	r := folderRecordings(t)["glm4_moe_lite"]
	want, err := ReadConfig(openFolder(t, r.Config, r.stored(), 1))
	if err != nil {
		t.Fatal(err)
	}
	config := maps.Clone(r.Config)
	for _, key := range []string{"mlp_layer_types", "qk_head_dim", "rope_interleave", "rope_parameters"} {
		delete(config, key)
	}
	maps.Copy(config, map[string]any{"first_k_dense_replace": 2, "num_nextn_predict_layers": 1, "partial_rotary_factor": 1.0,
		"rope_scaling": nil, "rope_theta": 1000000, "topk_method": "noaux_tc"})
	block := gguftest.Made{Name: "model.layers.4.eh_proj.weight", DType: "BF16", Shape: []int{40, 80}, Scale: 1}.Store()
	got, err := ReadConfig(openFolder(t, config, append(r.stored(), block), 1))
	if want.Further = 1; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
	for text, kinds := range map[string][]string{
		`mlp_layer_types[2] is "dense"`: {"dense", "sparse", "dense", "sparse"}, "mlp_layer_types has 3 layers": {"dense", "sparse", "sparse"},
	} {
		config := maps.Clone(r.Config)
		config["mlp_layer_types"] = kinds
		if _, err := tryFolder(t, config, r.stored(), 1); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v, want an error with %q", kinds, err, text)
		}
	}
}
