package inside

// The fields of every message in the order of their encoding. TestEveryFieldTravels detects a
// missing field.

func (s *Spec) code(c *coder) {
	s.Outer.code(c)
	s.Ground.code(c)
	s.Inner.code(c)
}

func (o *Outer) code(c *coder) {
	number(&o.Parent, c)
	list(&o.Mounts, c, number)
	o.Workspace.code(c)
	optional(&o.Overlay, c, (*Overlay).code)
	list(&o.Pins, c, (*Pin).code)
	list(&o.Layered, c, (*Source).code)
	flag(&o.Terminals, c)
	list(&o.Hide, c, number)
	text(&o.Exec, c)
	list(&o.Argv, c, text)
}

func (s *Source) code(c *coder) {
	number(&s.FD, c)
	text(&s.Path, c)
	s.Identity.code(c)
}

func (o *Overlay) code(c *coder) {
	o.Upper.code(c)
	o.Work.code(c)
}

func (p *Pin) code(c *coder) {
	text(&p.Path, c)
	flag(&p.ReadOnly, c)
}

func (g *Ground) code(c *coder) {
	number(&g.Tmp, c)
	flag(&g.Proc, c)
	list(&g.Masks, c, text)
	list(&g.Files, c, (*File).code)
	list(&g.Caches, c, (*Source).code)
	list(&g.Writable, c, text)
	flag(&g.Loopback, c)
}

func (f *File) code(c *coder) {
	text(&f.Path, c)
	text(&f.Content, c)
}

func (i *Inner) code(c *coder) {
	number(&i.Parent, c)
	text(&i.Dir, c)
	i.Workspace.code(c)
	flag(&i.First, c)
	list(&i.Masks, c, text)
	flag(&i.Pass, c)
	flag(&i.KeepDescriptors, c)
	flag(&i.DropCapabilities, c)
	flag(&i.NoNewPrivs, c)
	optional(&i.Landlock, c, (*Landlock).code)
	optional(&i.Network, c, (*Network).code)
	optional(&i.UserLimits, c, (*UserLimits).code)
}

func (u *UserLimits) code(c *coder) {
	number(&u.Outside, c)
	table(&u.Limits, c)
}

func (n *Network) code(c *coder) {
	number(&n.Outside, c)
	list(&n.Ports, c, number)
	flag(&n.Offline, c)
}

func (l *Landlock) code(c *coder) {
	number(&l.ABI, c)
	list(&l.Rules, c, (*Rule).code)
	flag(&l.DenyTCP, c)
}

func (r *Rule) code(c *coder) {
	text(&r.Path, c)
	text(&r.Access, c)
}

func (o *Order) code(c *coder) {
	flag(&o.Self, c)
	text(&o.Exec, c)
	o.File.code(c)
	list(&o.Argv, c, text)
	list(&o.Env, c, text)
	text(&o.Cwd, c)
	list(&o.Rlimits, c, (*Rlimit).code)
	flag(&o.Stdin, c)
	list(&o.Operands, c, (*Operand).code)
	text(&o.SecretDir, c)
	list(&o.SecretFiles, c, (*SecretFile).code)
	flag(&o.Filter, c)
}

func (o *Operand) code(c *coder) {
	text(&o.Path, c)
	text(&o.At, c)
	number(&o.Size, c)
	number(&o.Mode, c)
	number(&o.Mtime, c)
}

func (f *SecretFile) code(c *coder) {
	text(&f.Name, c)
	number(&f.Size, c)
}

func (i *Identity) code(c *coder) {
	number(&i.Dev, c)
	number(&i.Ino, c)
	number(&i.Size, c)
	number(&i.Mtime, c)
	number(&i.Ctime, c)
}

func (l *Rlimit) code(c *coder) {
	text(&l.Name, c)
	number(&l.Resource, c)
	number(&l.Soft, c)
	number(&l.Hard, c)
}

func (r *Report) code(c *coder) {
	text(&r.Failed, c)
	text(&r.Error, c)
	number(&r.Errno, c)
	list(&r.Files, c, number)
	optional(&r.Mounted, c, (*Identity).code)
	list(&r.Captured, c, text)
	table(&r.Namespaces, c)
	number(&r.UID, c)
	number(&r.GID, c)
	for _, mask := range []*string{&r.CapEff, &r.CapBnd, &r.CapPrm, &r.CapInh, &r.CapAmb} {
		text(mask, c)
	}
	flag(&r.NoNewPrivs, c)
	number(&r.Seccomp, c)
	number(&r.Filters, c)
	flag(&r.Watched, c)
	number(&r.LandlockABI, c)
	table(&r.Rlimits, c)
	number(&r.OOMScore, c)
	r.Workspace.code(c)
	flag(&r.Overlay, c)
	list(&r.Root, c, text)
	number(&r.Session, c)
	number(&r.Strays, c)
	list(&r.Unmasked, c, text)
	flag(&r.Environ, c)
	list(&r.Unpinned, c, number)
}

func (a *Attempt) code(c *coder) {
	flag(&a.Happened, c)
	text(&a.Detail, c)
}
