package cli

import (
	"github.com/spf13/cobra"

	"corenode/node/metrics"
)

func grafanaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "grafana", Short: "Print a dashboard for Grafana", Args: cobra.NoArgs,
		Long: `Print a dashboard to import into Grafana, with a data source of Prometheus that scrapes
the /metrics of one node or many. It is made of the table of metrics in OPERATING.md.`,
		Example: "  corenode grafana > board.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return metrics.WriteDashboard(cmd.OutOrStdout()) },
	}
}

func alertsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "alerts", Short: "Print alerting rules for Prometheus", Args: cobra.NoArgs,
		Long: `Print rules to begin with, for the rule_files of Prometheus. They are the alerts that
OPERATING.md lists.`,
		Example: "  corenode alerts > rules.yml && promtool check rules rules.yml",
		RunE:    func(cmd *cobra.Command, _ []string) error { return metrics.WriteRules(cmd.OutOrStdout()) },
	}
}
