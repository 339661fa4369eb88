"""Draw `emergence.svg`, the figure of the README: the toy computation of the chapter on emergent equivariance.

Run from anywhere: `python book/images/make_readme_figure.py`. The file is self-contained (text as paths, no script, no
style sheet) and its ink is a neutral grey, readable on white and on dark pages.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import optax

import eqbook as eq

TIMES, MEMBERS, SHOWN = (0, 1, 3, 2000), 1000, 12
ALT = (
    "Top: twelve networks, the mean of a thousand and the closed form as functions of x, at initialisation and after "
    "1, 3 and 2000 steps. Bottom: their asymmetry f(x) - f(-x), which vanishes for the mean only."
)


def compute() -> dict[str, np.ndarray]:
    """Train the ensemble on two points and their mirror images; as in the chapter."""
    group = eq.cyclic(2)
    sign = eq.groups.MatrixAction(group, np.array([[[1.0]], [[-1.0]]]))
    x, y = eq.groups.augment(
        sign, jnp.array([[-2.5], [1.0]]), eq.groups.TrivialAction(group), jnp.array([[-0.8], [0.8]])
    )
    grid = jnp.linspace(-5, 5, 201)[:, None]
    grid = (grid - grid[::-1]) / 2
    net = eq.Sequential(eq.Dense(256, W_std=2.5, b_std=1.0), eq.Erf(), eq.Dense(1, W_std=1.5))
    train, cross = eq.gram(net, x), eq.gram(net, grid, x)
    law = eq.EnsembleLaw(train.ntk, train.nngp, y)
    rate = 1 / float(law.eigenvalues[-1])
    run = eq.train_ensemble(
        net,
        jax.random.key(0),
        x,
        y,
        members=MEMBERS,
        epochs=TIMES[-1],
        record=TIMES,
        optimizer=optax.sgd(rate),
        watch={"grid": grid},
        progress=False,
    )
    closed_form = np.stack([law.mean(cross.ntk, t, eq.GradientDescent(rate))[:, 0] for t in TIMES])
    return {
        "grid": np.asarray(grid[:, 0]),
        "x": np.asarray(x[:, 0]),
        "y": np.asarray(y[:, 0]),
        "outputs": run.outputs["grid"][..., 0],
        "closed_form": closed_form,
    }


def draw(toy: dict[str, np.ndarray]) -> plt.Figure:
    """Functions above, their asymmetry below, one column for each training time."""
    member, mean, theory = eq.plotting.COLORS[:3]
    ink, grid, dashes = plt.rcParams["text.color"], toy["grid"], (0, (3, 2))
    fig, axes = plt.subplots(2, len(TIMES), figsize=(8.8, 4.3), sharex=True, sharey="row")
    for i, (top, bottom) in enumerate(axes.T):
        outputs = toy["outputs"][i]
        for ax, values in ((top, outputs), (bottom, outputs - outputs[:, ::-1])):
            ax.plot(grid, values[:SHOWN].T, color=member, lw=0.7, alpha=0.75)
            ax.plot(grid, values.mean(0), color=mean, lw=3)
        top.plot(grid, toy["closed_form"][i], color=theory, lw=1.5, ls=dashes)
        half = len(toy["x"]) // 2
        top.plot(toy["x"][:half], toy["y"][:half], "o", color=ink, ms=4)
        top.plot(toy["x"][half:], toy["y"][half:], "o", color=ink, ms=4, mfc="none")
        top.set_title("initialisation" if TIMES[i] == 0 else f"{TIMES[i]} step{'s' * (TIMES[i] > 1)}")
        bottom.set_xlabel("$x$")
    axes[0, 0].set(ylabel="$f(x)$", ylim=(-3, 3))
    axes[1, 0].set(ylabel="$f(x) - f(-x)$", ylim=(-3.5, 3.5))
    styles = {
        f"{SHOWN} networks": dict(color=member, lw=0.7),
        f"mean of {MEMBERS}": dict(color=mean, lw=3),
        "theory": dict(color=theory, lw=1.5, ls=dashes),
        "data": dict(color=ink, marker="o", ls="", ms=4),
        "mirrored data": dict(color=ink, marker="o", ls="", ms=4, mfc="none"),
    }
    handles = [plt.Line2D([], [], label=label, **style) for label, style in styles.items()]
    fig.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return fig


def main() -> None:
    """Compute, draw, write beside this script."""
    eq.plotting.use_style()
    # In an <img>, currentColor would be black on every page.
    svg = eq.plotting.to_svg(draw(compute()), ALT).replace("currentColor", eq.plotting.NEUTRAL)
    path = Path(__file__).with_name("emergence.svg")
    path.write_text(svg + "\n")
    print(f"{path.name}: {len(svg) / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
