package command

import (
	"slices"
	"strings"
)

// commaList is a comma-separated list of names.
type commaList string

func (l commaList) has(name string) bool {
	return name != "" && !strings.Contains(name, ",") && strings.Contains(","+string(l)+",", ","+name+",")
}

// family describes which commands the subcommands of a program start. A subcommand outside of the
// lists, such as an abbreviation, may start any program.
type family struct {
	// starts are the subcommands, of one or two words, that precede a command. It is empty if the
	// command is the first operand of the program itself.
	starts commaList
	// harmless are subcommands that start only programs that files of the project name. alone are
	// subcommands that are harmless without an operand.
	harmless, alone commaList
	// scripts is true if any other word is itself a script or program to start, unless it is
	// listed in unknown.
	scripts bool
	unknown commaList
	// within are subcommands followed by a name, and then by another subcommand.
	within commaList
	// before are options before the subcommand that do not change it.
	before options
	// plain are options before the command that do not change it; skip counts the operands before
	// it.
	plain []string
	skip  int
	// dashes is true if the command is only after "--".
	dashes bool
}

var quiet = []string{"-q", "--quiet", "-v", "--verbose", "--no-color", "--offline"}

var families = map[string]family{
	"uv": {
		starts:   "run,tool run",
		harmless: "sync,lock,add,remove,tree,export,init,venv,build,publish,version,cache,help,pip,python,tool install,tool list,tool upgrade,tool uninstall,tool dir,generate-shell-completion",
		before:   options{plain: append([]string{"-n", "--no-cache", "--no-progress", "--no-config", "--native-tls", "--isolated"}, quiet...), valued: []string{"--directory", "--project", "--color", "--cache-dir"}},
		plain:    []string{"--frozen", "--locked", "--no-sync", "--offline", "--isolated", "-q", "--quiet"},
	},
	"uvx":    {plain: []string{"--offline", "--isolated", "-q", "--quiet"}},
	"pipx":   {starts: "run", harmless: "install,install-all,list,upgrade,upgrade-all,uninstall,uninstall-all,inject,uninject,reinstall,reinstall-all,pin,unpin,ensurepath,environment,completions,help", before: options{plain: quiet}},
	"poetry": {starts: "run", harmless: "install,add,remove,update,lock,show,build,publish,check,config,new,init,search,export,version,source,cache,about,list,help,sync,env info,env list,env remove", before: options{plain: append([]string{"-n", "--no-interaction", "--no-ansi", "--ansi"}, quiet...), valued: []string{"-C", "--directory", "-P", "--project"}}},
	"pdm":    {starts: "run", harmless: "install,add,remove,update,lock,list,show,info,build,publish,sync,outdated,search,config,venv,cache,export,import,fix,py,python", alone: "init", scripts: true, unknown: "init,self,plugin,use,new", before: options{plain: quiet, valued: []string{"-p", "--project"}}},
	"hatch":  {starts: "run", harmless: "build,publish,version,clean,dep,new,status,config,fmt,test,python,project,env create,env show,env find,env prune,env remove", before: options{plain: quiet, valued: []string{"-e", "--env", "-p", "--project"}}},
	"rye":    {starts: "run,r", harmless: "sync,lock,add,remove,build,publish,init,fetch,pin,show,list,toolchain,test,lint,fmt,install,uninstall,config,version", before: options{plain: quiet}},
	"pipenv": {starts: "run", harmless: "install,uninstall,lock,sync,update,graph,check,verify,clean,requirements,upgrade,scripts,audit", before: options{plain: append([]string{"--venv", "--where", "--rm", "--py", "--envs"}, quiet...)}},
	"conda":  {starts: "run", harmless: "install,create,list,info,search,update,upgrade,remove,uninstall,clean,config,activate,deactivate,package,doctor,notices,compare,rename,env list,env create,env export,env update,env remove", before: options{plain: quiet}},
	"npm": {
		starts: "exec,x",
		harmless: "install,i,in,add,ci,clean-install,install-test,it,install-ci-test,cit,uninstall,remove,rm,un,r,unlink,update,up,upgrade,list,ls,la,ll,outdated,test,t,tst,start,stop,restart,run,run-script,rum,urn," +
			"view,v,info,show,search,find,s,audit,fund,why,explain,root,prefix,bin,ping,pack,publish,version,prune,dedupe,ddp,find-dupes,rebuild,rb,link,ln,shrinkwrap,cache,doctor,docs,home,repo,bugs,issues,help,whoami,login,logout,owner,access,team,token,profile,org,query,sbom,diff," +
			"deprecate,undeprecate,unpublish,dist-tag,pkg,config get,config list,config ls,get",
		alone:  "init,create,innit",
		before: options{plain: append([]string{"-s", "--silent", "-d", "-y", "--yes", "--no", "-g", "--global", "--workspaces", "-ws", "--if-present", "--no-audit", "--no-fund", "--no-save", "--prefer-offline"}, quiet...), valued: []string{"--prefix", "-C", "-w", "--workspace", "--loglevel", "--registry", "--cache"}},
		plain:  []string{"-y", "--yes", "--no", "--offline"},
	},
	"npx":  {plain: []string{"-y", "--yes", "--no", "--offline", "--bun"}},
	"bunx": {plain: []string{"--bun"}},
	"bun":  {starts: "x,run", harmless: "install,i,add,a,remove,rm,update,outdated,link,unlink,pm,test,build,upgrade,publish,patch,audit,info,why,help", alone: "init", scripts: true, unknown: "create,c,exec,repl,init", before: options{plain: append([]string{"--bun", "--silent"}, quiet...), valued: []string{"--cwd", "--filter", "-F"}}},
	"pnpm": {
		starts: "exec,dlx",
		harmless: "install,i,add,remove,rm,uninstall,un,update,up,upgrade,list,ls,ll,la,outdated,why,audit,run,run-script,test,t,start,stop,restart,pack,publish,store,prune,rebuild,rb,link,ln,unlink,import,dedupe,licenses,root,bin,init,fetch,patch,patch-commit,deploy,doctor,server,env,approve-builds,ignored-builds,self-update,help," +
			"config get,config list,recursive install,recursive run,recursive list,recursive test,recursive update",
		scripts: true, unknown: "create,config,c,set,get,recursive,multi,m,setup,completion,install-test,it",
		before: options{plain: append([]string{"-r", "--recursive", "-w", "--workspace-root", "-s", "--silent", "--parallel", "--stream", "--if-present", "--frozen-lockfile", "--prefer-offline"}, quiet...), valued: []string{"--filter", "-F", "-C", "--dir", "--loglevel", "--reporter"}},
	},
	"yarn": {
		starts:   "exec,dlx,run",
		harmless: "install,add,remove,upgrade,upgrade-interactive,up,list,info,why,outdated,audit,init,pack,publish,link,unlink,version,versions,help,licenses,import,dedupe,rebuild,test,start,cache,npm,constraints,config get,config list,workspaces info,workspaces list,workspaces focus",
		scripts:  true, unknown: "create,set,plugin,workspaces,node,config,patch,patch-commit,policies,global,search,stage,unplug", within: "workspace",
		before: options{plain: append([]string{"-s", "--silent", "--frozen-lockfile", "--immutable", "--prefer-offline", "--non-interactive", "--ignore-scripts"}, quiet...), valued: []string{"--cwd"}},
	},
	"bundle":   {starts: "exec", harmless: "install,update,add,remove,list,show,info,check,outdated,config,lock,cache,package,pack,init,platform,clean,doctor,env,licenses,viz,version,help,binstubs,pristine", before: options{plain: quiet}},
	"gem":      {starts: "exec", harmless: "install,list,search,build,uninstall,update,environment,help,info,outdated,which,specification,contents,dependency,fetch,cleanup,check,cert,pristine,sources,unpack,yank,push,owner,signin,signout,lock", before: options{plain: quiet}},
	"rbenv":    {starts: "exec", harmless: "version,versions,local,global,shell,install,uninstall,rehash,which,whence,where,root,prefix,init,commands,hooks,shims,latest,list,current,reshim,set,virtualenv,virtualenvs,virtualenv-delete,plugin list,help"},
	"mise":     {starts: "exec,x", dashes: true, harmless: "install,i,list,ls,ls-remote,use,u,current,where,which,outdated,upgrade,up,prune,doctor,registry,settings,run,r,tasks,uninstall,unset,latest,cache,reshim,version,sync,activate,completion,self-update,env,help", before: options{plain: append([]string{"-y", "--yes"}, quiet...), valued: []string{"-C", "--cd"}}},
	"direnv":   {starts: "exec", skip: 1, harmless: "allow,permit,grant,status,deny,block,revoke,version,hook,prune,export,reload,stdlib,help"},
	"devbox":   {starts: "run", plain: []string{"-q", "--quiet"}, harmless: "install,add,rm,remove,init,list,search,info,update,shellenv,version,cache,help"},
	"nix":      {starts: "run", harmless: "build,flake,search,eval,fmt,log,path-info,hash,print-dev-env,why-depends,derivation,registry,doctor,copy,help,develop,shell,store,nar,key", before: options{plain: append([]string{"--refresh", "--impure", "-L"}, quiet...), valued: []string{"--extra-experimental-features", "--experimental-features", "--log-format"}}},
	"rustup":   {starts: "run", skip: 1, harmless: "show,update,toolchain list,toolchain install,toolchain uninstall,target,component,default,override,which,doc,check,man,set,completions,help", before: options{plain: quiet}},
	"volta":    {starts: "run", harmless: "install,pin,list,which,fetch,uninstall,setup,help"},
	"corepack": {scripts: true, harmless: "enable,disable,prepare,install,use,up,pack,cache,hydrate"},
	"go":       {harmless: "build,test,vet,fmt,mod,list,env,get,install,clean,doc,version,work,fix,generate,run,help,bug,telemetry,tool cover,tool nm,tool objdump,tool trace,tool test2json,tool addr2line,tool buildid,tool covdata,tool dist", alone: "tool", before: options{valued: []string{"-C"}}},
	"cargo": {
		harmless: "build,b,check,c,test,t,bench,doc,d,run,r,clean,update,add,remove,rm,tree,metadata,fmt,clippy,fix,install,uninstall,search,publish,package,login,logout,owner,yank,vendor,fetch,generate-lockfile,locate-project,pkgid,verify-project,version,init,new,info,report,help,rustc,rustdoc,nextest run,nextest list",
		before:   options{plain: append([]string{"--locked", "--frozen", "--list", "+stable", "+beta", "+nightly"}, quiet...), valued: []string{"--color"}},
	},
	"composer":   {harmless: "install,i,update,u,upgrade,require,remove,rm,show,info,search,validate,dump-autoload,dumpautoload,outdated,status,audit,check-platform-reqs,licenses,diagnose,about,list,help,why,depends,why-not,prohibits,fund,suggests,run-script,run,clear-cache,clearcache,archive,bump,reinstall,self-update", before: options{plain: append([]string{"-n", "--no-interaction", "--no-ansi", "--ansi", "--no-plugins", "--no-scripts", "--no-cache"}, quiet...), valued: []string{"-d", "--working-dir"}}},
	"dotnet":     {starts: "exec,tool run", harmless: "build,restore,run,test,publish,pack,clean,new,add,remove,list,sln,nuget,format,workload,help,watch,msbuild,vstest,build-server,package,reference,solution,tool install,tool restore,tool list,tool update,tool uninstall", scripts: true, unknown: "fsi,dev-certs,tool", before: options{plain: []string{"--info", "--list-sdks", "--list-runtimes"}}},
	"meson":      {starts: "devenv", harmless: "setup,compile,test,install,dist,configure,introspect,init,subprojects,rewrite,format,wrap,env2mfile,help"},
	"pre-commit": {harmless: "run,install,uninstall,autoupdate,clean,gc,validate-config,sample-config,install-hooks,migrate-config,validate-manifest,help"},
	"gprofng":    {harmless: "display,archive"},
	"hg":         {harmless: "status,st,diff,log,add,remove,rm,commit,ci,update,up,pull,push,branch,branches,heads,tip,tags,summary,annotate,blame,cat,files,identify,id,parents,paths,root,outgoing,incoming,init,clone,merge,resolve,revert,rename,mv,copy,cp,move,forget,bookmarks,phase,manifest,grep,locate,verify,version,help,shelve,unshelve,rebase,graft,strip,export,import,archive,addremove,config", before: options{plain: quiet}},
	"mvn":        {harmless: "clean,validate,compile,test-compile,test,package,integration-test,verify,install,deploy,site,dependency:tree,dependency:resolve,dependency:go-offline,versions:display-dependency-updates,spotless:check,spotless:apply,help:effective-pom", before: options{plain: append([]string{"-B", "--batch-mode", "-ntp", "--no-transfer-progress", "-o", "-U", "-e", "-X", "-am", "-amd", "-DskipTests"}, quiet...), valued: []string{"-pl", "--projects", "-T", "-f", "--file"}}},
}

// inner parses the arguments of the program.
func (f family) inner(args []string) Inner {
	if f.starts == "" && f.harmless == "" {
		return f.command(args)
	}
	rest := f.before.skip(args)
	if len(rest) == 0 {
		return Inner{}
	}
	if !operand(rest[0]) {
		return Inner{Unknown: true}
	}
	one, two := rest[0], strings.Join(rest[:min(len(rest), 2)], " ")
	switch {
	case f.starts.has(two) && two != one:
		return f.command(rest[2:])
	case f.starts.has(one):
		return f.command(rest[1:])
	case f.harmless.has(one), f.harmless.has(two), f.alone.has(one) && !slices.ContainsFunc(rest[1:], operand):
		return Inner{}
	case f.within.has(one) && len(rest) > 2 && operand(rest[1]):
		return f.inner(rest[2:])
	case f.scripts && !f.unknown.has(one) && !f.within.has(one):
		return Inner{Commands: [][]string{rest}}
	}
	return Inner{Unknown: true}
}

// command parses the command after a subcommand.
func (f family) command(args []string) Inner {
	if f.dashes {
		at := slices.Index(args, "--")
		if at < 0 || slices.ContainsFunc(args[:at], func(word string) bool { return strings.HasPrefix(word, "-") }) {
			return Inner{Unknown: true}
		}
		args = args[at:]
	}
	for len(args) > 0 && slices.Contains(f.plain, args[0]) {
		args = args[1:]
	}
	for range f.skip {
		if len(args) == 0 || !operand(args[0]) {
			return Inner{Unknown: true}
		}
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || !operand(args[0]) {
		return Inner{Unknown: true}
	}
	return Inner{Commands: [][]string{args}}
}

// sameWrapper maps names to the program with the same command line.
var sameWrapper = map[string]string{
	"gtar": "tar", "bsdtar": "tar", "gsed": "sed", "ssed": "sed", "gmake": "make", "gnumake": "make", "bmake": "make", "fdfind": "fd",
	"mamba": "conda", "micromamba": "conda", "rtx": "mise", "nodenv": "rbenv", "pyenv": "rbenv", "goenv": "rbenv", "jenv": "rbenv", "asdf": "rbenv",
	"npm-cli.js": "npm", "npx-cli.js": "npx", "yarn.js": "yarn", "yarnpkg": "yarn", "pnpm.cjs": "pnpm", "pnpx": "npx", "pnpx.cjs": "npx", "corepack.js": "corepack", "bundler": "bundle", "mvnw": "mvn",
	"g++": "gcc", "cc": "gcc", "c++": "gcc", "cpp": "gcc", "clang": "gcc", "clang++": "gcc", "gfortran": "gcc", "gccgo": "gcc", "gdc": "gcc", "gnat": "gcc", "more": "less", "cross-env-shell": "cross-env",
	"ld.bfd": "ld", "ld.gold": "ld", "gold": "ld", "ld.lld": "ld", "lld": "ld", "mold": "ld", "ld.mold": "ld", "gcc-nm": "nm", "gcc-ar": "ar", "gcc-ranlib": "ar", "ranlib": "ar", "strip": "objdump", "objcopy": "objdump",
	"readelf": "objdump", "size": "objdump", "strings": "objdump", "addr2line": "objdump", "as": "objdump", "llvm-nm": "nm", "llvm-ar": "ar", "llc": "opt",
	"ginstall": "install", "gsort": "sort", "gsplit": "split", "pip-compile": "pip", "clippy-driver": "rustc", "rustdoc": "rustc",
	"ncat": "nc", "netcat": "nc", "gpg2": "gpg", "gpgsm": "gpg", "gpgv": "gpg", "dirmngr": "gpg", "universal-ctags": "ctags", "etags": "ctags", "sk": "fzf",
	"apt": "apt-get", "apt-cache": "apt-get", "apt-config": "apt-get", "apt-mark": "apt-get", "apt-key": "apt-get", "aptitude": "apt-get", "apt-ftparchive": "apt-get",
	"troff": "groff", "nroff": "groff", "ditroff": "groff", "pic": "groff", "grog": "groff", "gnroff": "groff", "gtroff": "groff",
	"hostnamectl": "busctl", "loginctl": "busctl", "timedatectl": "busctl", "localectl": "busctl", "gdbus": "busctl", "dbus-send": "busctl", "dbus-monitor": "busctl",
	"helm": "kubectl", "oc": "kubectl", "kustomize": "kubectl", "tex": "latex", "pdftex": "latex", "pdflatex": "latex", "xelatex": "latex", "xetex": "latex", "luatex": "latex", "lualatex": "latex", "context": "latex",
	"py.test": "pytest", "svnadmin": "svn", "chg": "hg",
}

// runsArguments are programs that start others, or run code, from their arguments or their input,
// and are not refused like launchers.
const runsArguments commaList = "cross-env,concurrently,watchexec,dotenv,dotenvx,dotenv-cli,npm-run-all,run-s,run-p,wireit,nodemon-cli,pm2,forever,foreman,honcho,overmind,hivemind,forego,goreman," +
	"op,doppler,chamber,aws-vault,infisical,teller,sops,envconsul,consul-template,envchain,dapr," +
	"sotruss,memusage,memusagestat,uclampset,systemd-cat,scriptlive,gdbserver,ccache,distcc,sccache,icecc,bear,intercept-build,scan-build,compiledb,libtool,kcov,multitime,poop,samply,heaptrack,operf,ocount,trace-cmd,apitrace,sysdig,dtrace,dtruss,ktrace,truss,stap," +
	"drmemory,drrun,box64,box86,rosetta,caffeinate,lockf,sandbox-exec,launchctl,open,cpulimit,trickle,torsocks,torify,tsocks,proxychains,proxychains4,numactl,schedtool,pee,annotate-output,lckdo,setlock,fghack,pgrphack,multilog,svlogd,tcpserver,tcpsvd,udpsvd," +
	"run-one,run-this-one,keep-one-running,daemon,immortal,monit,inotifyd,incrond,watchman,watchman-make,reflex,modd,guard,air,py-spy,scalene,kernprof,mprof,memray,viztracer,austin,pyinstrument," +
	"debconf,dpkg-reconfigure,dpkg-buildpackage,debuild,sbuild,pbuilder,schroot,dchroot,debootstrap,mmdebstrap,ssh-copy-id,sshfs,autossh,sftp,ftp,lftp,telnet,mail,mailx,s-nail,mutt,neomutt,alpine," +
	"nano,rnano,pico,joe,jed,mg,micro,hx,helix,kak,mcedit,ne,tilde,emacsclient,vipe,vidir,vipw,visudo,sensible-editor,sensible-pager,sensible-browser,xdg-open,xdg-email,x-www-browser,www-browser,gio,run-mailcap,see,edit,compose,mc,ranger,nnn,lf,vifm,w3m,lynx,links,elinks," +
	"dc,gs,ghostscript,psql,pg_wrapper,mysql,mariadb,duckdb,mongosh,mongo,clickhouse-client,cpan,ansible,ansible-playbook,ansible-console,salt,salt-call,puppet,chef-client,fab,mono,xargo,nvim-qt,jrunscript,pxargs,peco"

// readsResponses are programs that read more options from @file.
const readsResponses commaList = "gcc,tcc,nvcc,ld,nm,ar,objdump,rustc,java,javac,javadoc,jar,jlink,jdeps,kotlinc,scalac,ghc,swiftc,opt,ldc2,dmd,csc,mcs,vbc,msbuild,dotnet,fsc,pytest,icc"
