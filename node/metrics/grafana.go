package metrics

import (
	"encoding/json"
	"io"
	"regexp"
)

// A dashboard as Grafana imports it: no more of its format than it needs.
type dashboard struct {
	Title         string    `json:"title"`
	UID           string    `json:"uid"`
	SchemaVersion int       `json:"schemaVersion"`
	Editable      bool      `json:"editable"`
	Refresh       string    `json:"refresh"`
	Time          timeRange `json:"time"`
	Templating    variables `json:"templating"`
	Panels        []panel   `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type variables struct {
	List []variable `json:"list"`
}

type variable struct {
	Name       string  `json:"name"`
	Label      string  `json:"label"`
	Type       string  `json:"type"`
	Query      string  `json:"query"`
	Datasource *source `json:"datasource,omitempty"`
	Multi      bool    `json:"multi,omitempty"`
	IncludeAll bool    `json:"includeAll,omitempty"`
	Refresh    int     `json:"refresh,omitempty"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int       `json:"id"`
	Type        string    `json:"type"`
	Title       string    `json:"title"`
	GridPos     place     `json:"gridPos"`
	Datasource  *source   `json:"datasource,omitempty"`
	FieldConfig *defaults `json:"fieldConfig,omitempty"`
	Targets     []target  `json:"targets,omitempty"`
}

type place struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

type defaults struct {
	Defaults struct {
		Unit string `json:"unit"`
		Min  int    `json:"min"`
	} `json:"defaults"`
	Overrides []struct{} `json:"overrides"`
}

type target struct {
	RefID  string `json:"refId"`
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
	Format string `json:"format"`
}

const (
	panelsInRow = 3
	panelWidth  = 24 / panelsInRow // of the 24 columns that a dashboard has
	panelHeight = 8
)

// WriteDashboard writes the dashboard for Grafana. It asks for a data source of Prometheus and
// shows all nodes, or those that one chooses.
func WriteDashboard(w io.Writer) error {
	prometheus := &source{"prometheus", "${datasource}"}
	d := dashboard{Title: "corenode", UID: "corenode", SchemaVersion: 39, Editable: true, Refresh: "30s", Time: timeRange{"now-1h", "now"},
		Templating: variables{[]variable{
			{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"},
			{Name: "instance", Label: "Node", Type: "query", Query: "label_values(corenode_info, instance)", Datasource: prometheus,
				Multi: true, IncludeAll: true, Refresh: 2},
		}}}
	y := 0
	for _, row := range Rows() {
		d.Panels = append(d.Panels, panel{ID: len(d.Panels) + 1, Type: "row", Title: row.Title, GridPos: place{0, y, 24, 1}})
		y++
		for i, p := range row.Panels {
			if i > 0 && i%panelsInRow == 0 {
				y += panelHeight
			}
			one := drawn(p, prometheus)
			one.ID, one.GridPos = len(d.Panels)+1, place{i % panelsInRow * panelWidth, y, panelWidth, panelHeight}
			d.Panels = append(d.Panels, one)
		}
		y += panelHeight
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// drawn is a panel as Grafana has it.
func drawn(p Panel, from *source) panel {
	one := panel{Type: "timeseries", Title: p.Title, Datasource: from, FieldConfig: &defaults{Overrides: []struct{}{}}}
	one.FieldConfig.Defaults.Unit = p.Unit
	format := "time_series"
	if p.Heat {
		one.Type, format = "heatmap", "heatmap"
	}
	for i, q := range p.Queries {
		one.Targets = append(one.Targets, target{string(rune('A' + i)), ofInstance(q.Expr), q.Legend, format})
	}
	return one
}

var series = regexp.MustCompile(`\b((?:corenode|process|go)_[a-z_]+)(\{)?`)

// ofInstance narrows every series of an expression to the nodes that are chosen.
func ofInstance(expr string) string {
	return series.ReplaceAllStringFunc(expr, func(found string) string {
		if found[len(found)-1] == '{' {
			return found + `instance=~"$instance",`
		}
		return found + `{instance=~"$instance"}`
	})
}
