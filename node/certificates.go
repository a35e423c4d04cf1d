package main

import (
	"crypto/x509"
	"fmt"
	"time"

	"corenode/node/admin"
	"corenode/node/server"
)

// certificatesEvery is how often the files of certificates are looked at.
const certificatesEvery = 30 * time.Second

// openCertificates reads the pairs that the configuration names.
func (n *node) openCertificates() (err error) {
	for _, l := range []struct {
		key, certFile, keyFile string
		to                     **server.Certificate
	}{
		{"server.tls_certificate", n.cfg.Server.TLSCertificate, n.cfg.Server.TLSKey, &n.certificates.public},
		{"admin.tls_certificate", n.cfg.Admin.TLSCertificate, n.cfg.Admin.TLSKey, &n.certificates.admin},
	} {
		if l.certFile == "" {
			continue
		}
		if admin.HasCertificate(n.cfg.DataDir, l.certFile) {
			return fmt.Errorf("%s: the node itself writes and removes %s: name another file", l.key, l.certFile)
		}
		if *l.to, err = server.OpenCertificate(l.certFile, l.keyFile); err != nil {
			return fmt.Errorf("%s: %w", l.key, err)
		}
	}
	return nil
}

// base is the URL of an address of the API.
func (n *node) base(address string) string {
	if n.certificates.public != nil {
		return "https://" + address
	}
	return "http://" + address
}

// followCertificates takes certificates that were replaced, until the node stops.
func (n *node) followCertificates() {
	if n.certificates.public == nil && n.certificates.admin == nil {
		return
	}
	tick := time.NewTicker(certificatesEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.stopped:
			return
		case <-tick.C:
			n.reloadCertificates()
		}
	}
}

// reloadCertificates takes the pairs that are on disk now and says whose are others. For one that
// cannot be used the one before stays, and problems and the log say why.
func (n *node) reloadCertificates() (changed, problems []string) {
	for _, l := range []struct {
		key    string
		of     *server.Certificate
		before func(*x509.Certificate)
	}{
		{"server.tls_certificate", n.certificates.public, func(*x509.Certificate) {}},
		{"admin.tls_certificate", n.certificates.admin, n.announceNext},
	} {
		if l.of == nil {
			continue
		}
		switch done, err := l.of.Reload(l.before); {
		case err != nil:
			problems = append(problems, l.key+": "+err.Error()+"; the one before stays")
			n.log.Error("a certificate cannot be used; the one before stays", "key", l.key, "error", err.Error())
		case done:
			changed = append(changed, l.key)
			n.log.Info("a new certificate is shown", "key", l.key, "expires", l.of.Leaf().NotAfter)
		}
	}
	return changed, problems
}

// announceNext lets the commands of this machine trust the admin listener's next certificate
// beside the one that it still shows.
func (n *node) announceNext(leaf *x509.Certificate) {
	if err := admin.AnnounceCertificates(n.cfg.DataDir, leaf.Raw, n.certificates.admin.Leaf().Raw); err != nil {
		n.log.Error("commands may not reach the node: its certificate is not in the data folder", "error", err.Error())
	}
}
