"""The Ising sampler against exact mean energies, and these against sums over all configurations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numbers_drawn import normal

import eqbook as eq
from eqbook.data import (
    CRITICAL_TEMPERATURE,
    ising_configurations,
    kaufman_energy,
    local_energies,
    onsager_energy,
    total_energy,
)
from eqbook.data.ising import cluster_step

TEMPERATURES = (0.5, 1.5, CRITICAL_TEMPERATURE, 4.0, 50.0)


def enumerated(side, temperature):
    """Mean energy per site by a sum over all configurations, spins by spins."""
    sites = side * side
    spins = 1 - 2.0 * ((np.arange(2**sites)[:, None] >> np.arange(sites)) & 1)
    spins = spins.reshape(-1, side, side)
    bonds = (spins * np.roll(spins, 1, 1) + spins * np.roll(spins, 1, 2)).sum((1, 2))
    weights = np.exp((bonds - bonds.max()) / temperature)
    return -(bonds * weights).sum() / weights.sum() / sites


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("side", [2, 3, 4])
def test_exact_energy_is_that_of_all_configurations(side, temperature):
    # 65,536 terms, and a loss of digits at high temperature, where bonds of both signs nearly cancel
    assert abs(kaufman_energy(side, temperature) - enumerated(side, temperature)) < eq.testing.tolerance(float, 2**16)


@pytest.mark.parametrize("temperature", [0.5, 1.5, 3.5, 50.0])
def test_large_lattice_has_the_energy_of_the_infinite_one(temperature):
    """Corrections fall as exp(-L / correlation length); at these temperatures the length is below 3 sites."""
    bound = np.exp(-128 / 3) + eq.testing.tolerance(float, 128)
    assert abs(kaufman_energy(128, temperature) - onsager_energy(temperature)) < bound


def test_known_values():
    assert onsager_energy(CRITICAL_TEMPERATURE) == pytest.approx(-np.sqrt(2), abs=1e-13)
    # at the critical temperature, half the correction on doubling the side: it is proportional to 1 / L
    corrections = [kaufman_energy(side, CRITICAL_TEMPERATURE) + np.sqrt(2) for side in (16, 32, 64)]
    assert corrections[0] / corrections[1] == pytest.approx(2, rel=0.01)
    assert corrections[1] / corrections[2] == pytest.approx(2, rel=0.005)
    assert onsager_energy(1e-2) == pytest.approx(-2)
    for temperature in (0.011, 0.009, 1e-3, 1e-300):
        assert kaufman_energy(4, temperature) == pytest.approx(-2)


@pytest.mark.parametrize("temperature", [1e4, 1e6, 1e8])
def test_digits_at_high_temperatures(temperature):
    """u = -2 K - c K^3 with two bonds for each site, but four with 2 sites on a side; odd loops add K^2."""
    K = 1 / temperature
    assert onsager_energy(temperature) == pytest.approx(-2 * K, rel=10 * K**2 + 1e-15)
    for side, bonds in ((2, 4), (3, 2), (8, 2), (16, 2)):
        bound = 10 * K ** (1 if side == 3 else 2) + 20 * np.finfo(float).eps * temperature
        assert kaufman_energy(side, temperature) == pytest.approx(-bonds * K, rel=bound)


@pytest.mark.parametrize("temperature", [0.99e9, 1.01e9, 1e150, 1e200, 1e300])
def test_energy_does_not_vanish_before_the_coupling(temperature):
    assert onsager_energy(temperature) == pytest.approx(-2 / temperature, rel=1e-15)


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("algorithm", "side", "temperature"),
    [("cluster", 4, t) for t in (1.5, CRITICAL_TEMPERATURE, 4.0)]
    + [("cluster", 5, CRITICAL_TEMPERATURE), ("cluster", 12, 2.2)]
    + [("metropolis", 4, t) for t in (1.5, CRITICAL_TEMPERATURE, 4.0)],
)
def test_samples_have_the_exact_mean_energy(algorithm, side, temperature):
    n = 1000 if side < 12 else 400
    spins = ising_configurations(jax.random.key(3), n, side, temperature, algorithm=algorithm)
    assert spins.shape == (n, side, side, 1) and spins.dtype == jnp.float32
    assert set(np.unique(spins)) == {-1.0, 1.0}
    energies = np.asarray(total_energy(spins), float)
    assert abs(eq.testing.monte_carlo_z(energies, 2 * kaufman_energy(side, temperature))) < 4
    # Both signs are equally likely, and all sites alike.
    assert abs(eq.testing.monte_carlo_z(spins.mean((1, 2, 3)), 0.0)) < 4


@pytest.mark.parametrize("algorithm", ["cluster", "metropolis"])
def test_distribution_is_that_of_boltzmann_configuration_by_configuration(algorithm):
    """On 2 x 2 sites all 16 configurations can be counted."""
    n, temperature = 20_000, 3.0
    sweeps = {"cluster": 30, "metropolis": 100}[algorithm]
    spins = ising_configurations(jax.random.key(0), n, 2, temperature, sweeps=sweeps, algorithm=algorithm)
    spins = np.asarray(spins).reshape(n, 4)
    counts = np.bincount(((spins > 0) * 2 ** np.arange(4)).sum(1), minlength=16)
    states = (1 - 2.0 * ((np.arange(16)[:, None] >> np.arange(4)) & 1)).reshape(-1, 2, 2)
    weights = np.exp((states * np.roll(states, 1, 1) + states * np.roll(states, 1, 2)).sum((1, 2)) / temperature)
    p = weights / weights.sum()  # the order of the states does not matter: p(s) = p(-s)
    z = (counts - n * p) / np.sqrt(n * p * (1 - p))
    assert np.abs(z).max() < 4.5


def test_configurations_are_independent_and_reproducible():
    spins = ising_configurations(jax.random.key(1), 400, 6, 2.5)
    again = ising_configurations(jax.random.key(1), 400, 6, 2.5)
    np.testing.assert_array_equal(spins, again)
    energies = np.asarray(total_energy(spins), float)
    energies = (energies - energies.mean()) / energies.std()
    assert abs((energies[1:] * energies[:-1]).mean()) < 4 / np.sqrt(399)


@pytest.mark.slow
def test_thermalised_from_any_start():
    """Chains of 100 steps from random spins and from ordered ones have the same mean energy."""
    inverse = jnp.float32(1 / CRITICAL_TEMPERATURE)
    step = jax.jit(cluster_step)
    spins = jnp.ones((500, 8, 8), bool)
    for key in jax.random.split(jax.random.key(2), 100):
        spins = step(key, spins, inverse)
    cold = np.asarray(total_energy(jnp.where(spins, 1.0, -1.0)[..., None]), float)
    assert abs(eq.testing.monte_carlo_z(cold, 2 * kaufman_energy(8, CRITICAL_TEMPERATURE))) < 4


def test_zero_temperature_and_no_steps():
    cold = ising_configurations(jax.random.key(0), 20, 6, 0.01)
    assert np.all(np.asarray(total_energy(cold)) == -4)
    hot = ising_configurations(jax.random.key(0), 2000, 4, 1.0, sweeps=0)
    assert abs(eq.testing.monte_carlo_z(np.asarray(total_energy(hot), float), 0.0)) < 4


@pytest.mark.parametrize("algorithm", ["cluster", "metropolis"])
@pytest.mark.parametrize("temperature", [1e-39, 1e-300, 1e-320])
def test_temperatures_whose_inverse_is_infinite_are_those_near_zero(algorithm, temperature):
    cold = ising_configurations(jax.random.key(0), 20, 6, temperature, sweeps=50, algorithm=algorithm)
    np.testing.assert_array_equal(
        cold, ising_configurations(jax.random.key(0), 20, 6, 0.01, sweeps=50, algorithm=algorithm)
    )
    assert float(total_energy(cold).mean()) < -3  # of random spins it is 0, of equal ones -4


def test_local_energies_by_hand():
    spins = np.asarray(ising_configurations(jax.random.key(5), 1, 5, 2.5))[0, :, :, 0]
    expected = np.zeros((5, 5))
    for i in range(5):
        for j in range(5):
            around = spins[i - 1, j] + spins[(i + 1) % 5, j] + spins[i, j - 1] + spins[i, (j + 1) % 5]
            expected[i, j] = spins[i, j] * around
    np.testing.assert_array_equal(local_energies(spins[..., None])[..., 0], expected)
    assert float(total_energy(spins[..., None], J=2.0)) == pytest.approx(-2 * expected.mean(), rel=1e-6)


@pytest.mark.parametrize("value, dtype", [(100, np.int8), (255, np.uint8), (-(2**15), np.int16), (2**20, np.int64)])
def test_energies_of_integers_do_not_wrap_around(value, dtype):
    spins = np.full((2, 2, 1), value, dtype)
    for given in (spins, jnp.asarray(spins), spins.tolist()):
        np.testing.assert_array_equal(local_energies(given), np.full((2, 2, 1), 4.0 * value**2))
        assert float(total_energy(given)) == -4.0 * value**2
        np.testing.assert_array_equal(jax.jit(local_energies)(spins), local_energies(given))
    ones = np.ones((2, 2, 1), dtype)
    assert float(total_energy(ones, np.uint8(1))) == -4 and float(total_energy(ones, 2**40)) == -(2.0**42)


def test_energies_have_the_dtype_of_the_spins(dtype):
    for kept in (jnp.float16, jnp.float32, dtype):
        spins = jnp.ones((3, 2, 2, 1), kept)
        assert local_energies(spins).dtype == kept
        assert all(total_energy(spins, J).dtype == kept for J in (1.0, 2, -1))
    assert local_energies(np.ones((2, 2, 1), np.int8)).dtype == dtype


def test_energies_beyond_all_numbers_are_refused():
    for spins in (np.full((2, 2, 1), 1e300), np.full((2, 2, 1), 1e30)):
        with pytest.raises(ValueError, match="`spins`: expected numbers that stay finite in float32"):
            local_energies(spins)
    with pytest.raises(ValueError, match="`spins` and `J`: expected numbers that stay finite"):
        total_energy(np.ones((2, 2, 1)), 1e300)


def test_local_energies_are_equivariant_and_the_total_invariant():
    action = eq.groups.ImageAction(eq.dihedral(4))
    for x in (ising_configurations(jax.random.key(0), 3, 6, 2.0), normal(1, (3, 6, 6, 1))):
        eq.testing.assert_equivariant(local_energies, x, action, action)
        eq.testing.assert_equivariant(total_energy, x, action, eq.groups.TrivialAction(action.group))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 4, 1.0), "`n`"),
        ((1, 1, 1.0), "`side`: expected an integer of at least 2"),
        ((1, 4, 0.0), "`temperature`: expected a positive number, got 0.0"),
        ((1, 4, np.nan), "`temperature`"),
        ((1, 4, 1.0, -1), "`sweeps`"),
        ((1, 4, 1.0, 1, "wolff"), "`algorithm`: expected 'cluster' or 'metropolis', got 'wolff'"),
        ((1, 5, 1.0, 1, "metropolis"), "`side`: expected an even number"),
    ],
)
def test_bad_arguments_are_named(arguments, said):
    with pytest.raises(ValueError, match=said):
        ising_configurations(jax.random.key(0), *arguments)
    with pytest.raises(ValueError, match="`spins`"):
        local_energies(jnp.ones((4, 4)))
    for energy in (onsager_energy, lambda t: kaufman_energy(4, t)):
        with pytest.raises(ValueError, match="`temperature`"):
            energy(-1.0)


@pytest.mark.parametrize("wrong", [None, "2", [1.0, 2.0], np.nan])
def test_wrong_types_are_named(wrong):
    spins = jnp.ones((4, 4, 1))
    for energy in (onsager_energy, lambda t: kaufman_energy(4, t)):
        with pytest.raises(ValueError, match="`temperature`: expected a positive number"):
            energy(wrong)
    with pytest.raises(ValueError, match="`key`: expected one random key"):
        ising_configurations(wrong, 1, 4, 1.0)
    with pytest.raises(ValueError, match="`spins`: expected"):
        local_energies(wrong)
    if not isinstance(wrong, list):  # a coupling for each lattice may be one
        with pytest.raises(ValueError, match="`J`: expected"):
            total_energy(spins, wrong)
    assert float(total_energy(spins, J=-1)) == 4 and jax.jit(total_energy)(spins, 2.0) == -8
