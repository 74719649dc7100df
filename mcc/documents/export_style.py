"""How the page of a document looks, by day and by night."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#dfe4ea;--paper:#fff;--ground:#f5f7f9;--link:#1d5fbf;
--done:#1a7f4b;--stale:#a86500;--pending:#3d63c9;--failed:#c0322b;--conflict:#8a3fc0}
@media (prefers-color-scheme:dark){:root{--ink:#e4e8ee;--soft:#9aa6b5;--line:#303945;--paper:#1a2029;--ground:#12161c;
--link:#7db0ff;--done:#53c488;--stale:#e0a642;--pending:#8ea9ff;--failed:#ff7b72;--conflict:#c792ea}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
header{padding:2rem 2rem 1.25rem;background:var(--paper);border-bottom:1px solid var(--line)}
h1{margin:0 0 .5rem;font-size:1.9rem;line-height:1.2;overflow-wrap:anywhere}
.about{margin:0;color:var(--soft);display:flex;flex-wrap:wrap;gap:.4rem 1rem;align-items:baseline}
.page{display:grid;grid-template-columns:minmax(12rem,18rem) minmax(0,1fr);gap:1.5rem;padding:1.5rem 2rem;
max-width:90rem}
nav{order:-1;position:sticky;top:1rem;align-self:start;max-height:calc(100vh - 2rem);overflow:auto;font-size:.9rem}
nav ol{list-style:none;margin:0;padding:0}
nav a{display:block;padding:.2rem .4rem .2rem calc(.4rem + var(--level)*.9rem);border-radius:.35rem;color:inherit;
text-decoration:none;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
nav a:hover{background:var(--line)}
.dot{display:inline-block;width:.55rem;height:.55rem;margin-inline-end:.5rem;border-radius:50%;background:currentColor}
.done{color:var(--done)}.stale{color:var(--stale)}.pending{color:var(--pending)}.failed{color:var(--failed)}
.conflict{color:var(--conflict)}
.node{margin-bottom:1rem;padding:1rem 1.25rem;background:var(--paper);border:1px solid var(--line);border-radius:.6rem;
content-visibility:auto;contain-intrinsic-size:auto 20rem;scroll-margin-top:1rem}
.node:target{border-color:var(--link)}
h2,h3,h4,h5,h6{margin:0 0 .6rem;font-size:1.15rem;line-height:1.35;overflow-wrap:anywhere}
h2{font-size:1.35rem}
code{font:.82em ui-monospace,"SF Mono",Menlo,Consolas,monospace;color:var(--soft);overflow-wrap:anywhere}
.status{font-size:.78rem;font-weight:600;padding:.1rem .55rem;border:1px solid currentColor;border-radius:1rem;
white-space:nowrap}
.summary{margin:0 0 .75rem;color:var(--soft);font-style:italic}
.note{margin:.6rem 0;padding:.45rem .7rem;border-inline-start:3px solid currentColor;background:var(--ground);
overflow-wrap:anywhere}
.note ul{margin:.3rem 0 0;padding-inline-start:1.2rem}
table{width:100%;border-collapse:collapse;font-size:.92rem}
th,td{padding:.4rem .6rem;border-top:1px solid var(--line);text-align:start;vertical-align:top;overflow-wrap:anywhere}
thead th{color:var(--soft);font-weight:600;font-size:.8rem}
.values{table-layout:fixed;font-size:1rem}
.values th{width:9rem;font-weight:600;color:var(--soft)}
.values .by{width:8rem;color:var(--soft);font-size:.8rem;text-align:end}
.values ul{margin:0;padding-inline-start:1.2rem}
.wide{overflow-x:auto}
.facts td,.facts th,.facts code{white-space:nowrap;overflow-wrap:normal}
.facts .said{white-space:pre-wrap;overflow-wrap:anywhere;min-width:14rem;width:100%}
.text{white-space:pre-wrap;overflow-wrap:anywhere}
.unset{color:var(--soft);font-style:italic}
details{margin-top:.6rem}
summary{cursor:pointer;color:var(--soft);font-size:.88rem}
td details{margin-top:0}td summary{color:inherit;font-size:inherit}
.broken td{color:var(--failed)}.open td{color:var(--soft)}
a{color:var(--link)}
@media (max-width:50rem){.page{grid-template-columns:minmax(0,1fr);padding:1rem}nav{position:static;max-height:14rem}
header{padding:1.25rem 1rem}.values .by{display:none}.values th{width:8rem}}
@media print{nav{display:none}.page{display:block;padding:0}.node{content-visibility:visible;break-inside:avoid}}
"""
