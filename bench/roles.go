package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"corenode/bench/floor"
	"corenode/bench/peer"
)

// mockCommand and passThroughCommand are this program in its two other roles.
func mockCommand() *cobra.Command {
	return &cobra.Command{
		Use: "__mock", Short: "Serve the mock upstream", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listen(cmd, floor.Mock) },
	}
}

func passThroughCommand() *cobra.Command {
	var upstream string
	cmd := &cobra.Command{
		Use: "__passthrough", Short: "Serve the pass-through", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listen(cmd, func(ln net.Listener) error { return floor.PassThrough(ln, upstream) })
		},
	}
	cmd.Flags().StringVar(&upstream, "upstream", "", "address of the mock, host:port")
	return cmd
}

// listen serves on a free port, which it prints, until the command's context ends.
func listen(cmd *cobra.Command, serve func(net.Listener) error) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), "listening on", ln.Addr())
	done := make(chan error, 1)
	go func() { done <- serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-cmd.Context().Done():
		return nil // the process ends, and its connections with it
	}
}

// spinCommand is this program as one that only computes, until it is stopped.
func spinCommand() *cobra.Command {
	return &cobra.Command{
		Use: peer.SpinCommand, Short: "Compute and do nothing else", Hidden: true, Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), peer.SpinGreeting)
			for done := cmd.Context().Done(); ; {
				select {
				case <-done:
					return
				default:
				}
			}
		},
	}
}
